package push

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gotach/profiler/internal/infile"
)

// A cursor remembers in a file what a target has. The file has a line of JSON for each fact, the
// latest one for a file counts. Lines are appended; when there are many old ones, a new file
// replaces the old one in one step. A line that is lost or torn, by a crash or a full disk, means
// that a file is sent again.
type cursor struct {
	dir    *folder
	name   string // of the file
	target string
	f      *os.File
	lines  int  // in the file
	dirty  bool // the file lacks something, or its last line is torn

	known map[string]*known // by name
	gone  int               // how many of them are not in the latest list
	ids   map[ID]*known
	batch []ID // files that were being sent together when the process before this one ended
}

// known is what the cursor knows about a file.
type known struct {
	entry
	id    ID
	state string
	gone  bool // not in the latest list
}

const (
	stateSent    = "sent"
	stateRefused = "refused"
)

// A line is one in the file.
type line struct {
	Target string `json:"target,omitempty"` // the first one

	Name  string `json:"name,omitempty"`
	Size  int64  `json:"size,omitempty"`
	Mod   int64  `json:"mod,omitempty"` // ns
	ID    string `json:"id,omitempty"`
	State string `json:"state,omitempty"`

	Batch []string `json:"batch,omitempty"` // ids of files that are sent together from now on
}

// ErrInUse is the error if another process sends the same directory to the same target.
var ErrInUse = errors.New("another gotach push sends this directory to this target")

// maxCursor is the largest size of a cursor's file, which is read as a whole: some million lines.
const maxCursor = 256 << 20

// openCursor opens the cursor with a key in a folder. target is the name of the target for people.
func openCursor(dir *folder, key, target string) (*cursor, error) {
	sum := sha256.Sum256([]byte(key))
	c := &cursor{
		dir: dir, name: ".push-" + hex.EncodeToString(sum[:6]) + ".cursor", target: target,
		known: map[string]*known{}, ids: map[ID]*known{},
	}
	for range 10 {
		err := c.claim()
		if errors.Is(err, fs.ErrExist) || errors.Is(err, infile.ErrReplaced) {
			continue // somebody replaced it meanwhile
		}
		if err == nil {
			if err = c.load(); err != nil {
				c.f.Close()
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir.path, c.name), err)
		}
		return c, nil
	}
	return nil, fmt.Errorf("%s: %w", filepath.Join(dir.path, c.name), ErrInUse)
}

// claim opens the file and locks it.
func (c *cursor) claim() error {
	const flag = os.O_RDWR | os.O_APPEND
	f, info, err := c.dir.open(c.name, flag)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = c.dir.OpenFile(c.name, flag|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			info, err = f.Stat()
		}
	}
	if err != nil {
		return err
	}
	// Who may write to it could say that files were sent; a second name may be that of another
	// file.
	if err = onlyOurs(info); err == nil && !oneName(info) {
		err = errors.New("the file has several names")
	}
	if err == nil && info.Size() > maxCursor {
		err = fmt.Errorf("a cursor of %d bytes", info.Size())
	}
	if err == nil {
		err = lock(f)
	}
	if here, err2 := c.dir.Lstat(c.name); err == nil && (err2 != nil || !os.SameFile(here, info)) {
		err = infile.ErrReplaced
	}
	if err != nil {
		f.Close()
		return err
	}
	c.f = f
	return nil
}

// load reads the file.
func (c *cursor) load() error {
	r := bufio.NewReader(c.f)
	for {
		b, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // what follows the last end of line is torn
			c.dirty = c.dirty || len(b) > 0 || c.lines == 0
			return nil
		}
		if err != nil {
			return err
		}
		c.lines++
		var l line
		bad := json.Unmarshal(b, &l) != nil
		// The first line had the target as it was given, with what is secret.
		if c.lines == 1 && (bad || l.Target != c.target) {
			c.dirty = true
		}
		if bad {
			continue
		}
		c.apply(&l)
	}
}

func (c *cursor) apply(l *line) {
	id := func(s string) (id ID, ok bool) {
		b, err := hex.DecodeString(s)
		return id, err == nil && copy(id[:], b) == len(id)
	}
	switch {
	case l.Name != "":
		if id, ok := id(l.ID); ok && (l.State == stateSent || l.State == stateRefused) {
			c.set(&known{entry: entry{l.Name, l.Size, time.Unix(0, l.Mod)}, id: id, state: l.State})
		}
	case l.Batch != nil:
		c.batch = nil
		for _, s := range l.Batch {
			if id, ok := id(s); ok {
				c.batch = append(c.batch, id)
			}
		}
	}
}

func (c *cursor) set(k *known) {
	c.known[k.name], c.ids[k.id] = k, k
}

// done reports whether nothing has to be done with a file of this name.
func (c *cursor) done(e entry) bool {
	k := c.known[e.name]
	return k != nil && k.same(e)
}

// keep forgets files that are not in the list and were not in the one before. Until then they may
// have got another name.
func (c *cursor) keep(entries []entry) {
	there := make(map[string]bool, len(entries))
	for _, e := range entries {
		there[e.name] = true
	}
	c.gone = 0
	for name, k := range c.known {
		switch {
		case there[name]:
			k.gone = false
		case !k.gone:
			k.gone = true
			c.gone++
		default:
			delete(c.known, name)
			if c.ids[k.id] == k {
				delete(c.ids, k.id)
			}
		}
	}
}

// write remembers facts. If they cannot be saved, they are only in memory, and the error says why:
// then the next write tries to save all.
func (c *cursor) write(lines ...line) error {
	var b []byte
	for i := range lines {
		c.apply(&lines[i])
		b = appendLine(b, &lines[i])
	}
	if !c.dirty && c.lines <= 2*(len(c.known)-c.gone)+1000 {
		if _, err := c.f.Write(b); err == nil {
			c.lines += len(lines)
			return nil
		}
	}
	c.dirty = true
	return c.save()
}

// fact returns the line of a file.
func fact(e entry, id ID, state string) line {
	return line{Name: e.name, Size: e.size, Mod: e.mod.UnixNano(), ID: id.String(), State: state}
}

// batchLine returns the line of files that are sent together.
func batchLine(ids []ID) (l line) {
	for _, id := range ids {
		l.Batch = append(l.Batch, id.String())
	}
	return l
}

func appendLine(b []byte, l *line) []byte {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // it has only texts and numbers
	}
	return append(append(b, text...), '\n')
}

// save replaces the file by a new one that has all that counts.
func (c *cursor) save() error {
	b := appendLine(nil, &line{Target: c.target})
	for _, k := range c.known {
		if !k.gone {
			l := fact(k.entry, k.id, k.state)
			b = appendLine(b, &l)
		}
	}
	if l := batchLine(c.batch); l.Batch != nil {
		b = appendLine(b, &l)
	}
	f, err := c.dir.replace(c.name, b)
	if err != nil {
		return err
	}
	c.f.Close()
	c.f, c.lines, c.dirty = f, bytes.Count(b, []byte{'\n'}), false
	return nil
}

// replace writes a file under another name, locks it and then gives it the name. So there is always
// one with this name, and it is complete.
func (d *folder) replace(name string, b []byte) (_ *os.File, err error) {
	f, err := d.create(name+".new", os.O_RDWR|os.O_APPEND)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = d.Remove(name + ".new")
		}
	}()
	if err := lock(f); err != nil {
		return nil, err
	}
	if _, err := f.Write(b); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return f, d.Rename(name+".new", name)
}

// close saves what could not be saved before, and closes the file.
func (c *cursor) close() (err error) {
	if c.dirty {
		err = c.save()
	}
	return errors.Join(err, c.f.Close())
}
