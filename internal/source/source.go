// Package source reads the source files that a profile names. Profiles come from strangers, and
// what is read may be sent to others: so a name alone is no reason to read a file.
package source

import (
	"go/build"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gotach/profiler/internal/infile"
	"github.com/gotach/profiler/tachyon"
)

const (
	maxFile = 4 << 20 // bytes of a file
	// MaxText is how many bytes of source callers should keep at once.
	MaxText = 64 << 20
)

// extensions are those of files that are source.
var extensions = []string{".go", ".s", ".c", ".cc", ".cpp", ".h", ".py", ".pl", ".pm", ".php"}

// A Reader says which files may be read.
type Reader struct {
	asked bool   // the user has named the folders
	roots []root // the files are below these

	mu    sync.Mutex
	shown map[string]string // the folder of each file of which something was shown
}

// A root is a folder. Names that are no paths, as with -trimpath, are below it.
type root struct {
	dir    string
	cache  bool   // it is a module cache, whose names have ! before small letters in place of capitals
	module string // the path of the module that it is, with which such names of its files begin; "" if it is unknown
}

// Usual returns a reader for the case that the user has said nothing. It reads Go files of the
// module of the present folder, of GOROOT and of the module cache, and shows only functions that
// are where the profile says.
func Usual() *Reader {
	r := &Reader{}
	if wd, err := os.Getwd(); err == nil {
		if dir := moduleRoot(wd); r.add(dir, false) {
			r.roots[0].module = modulePath(dir)
		}
	}
	if dir := goroot(); dir != "" {
		r.add(filepath.Join(dir, "src"), false)
	}
	cache := os.Getenv("GOMODCACHE")
	if list := filepath.SplitList(build.Default.GOPATH); cache == "" && len(list) > 0 {
		cache = filepath.Join(list[0], "pkg", "mod")
	}
	r.add(cache, true)
	return r
}

// Below returns a reader of all source files below folders that the user has named.
func Below(dirs []string) (*Reader, error) {
	r := &Reader{asked: true}
	for _, dir := range dirs {
		if _, err := os.ReadDir(dir); err != nil {
			return nil, err
		}
		r.add(dir, false)
	}
	return r, nil
}

// add adds a folder, unless it is "" or not there. It reports whether it did.
func (r *Reader) add(dir string, cache bool) bool {
	abs, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return false
	}
	if abs, err = filepath.EvalSymlinks(abs); err == nil {
		r.roots = append(r.roots, root{dir: abs, cache: cache})
	}
	return err == nil
}

// moduleRoot returns the nearest folder above dir that has a go.mod, or dir itself; "" if there is
// none.
func moduleRoot(dir string) string {
	for {
		if fi, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil && fi.Mode().IsRegular() {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

var moduleLine = regexp.MustCompile(`(?m)^module[ \t]+"?([^\s"]+)`)

// modulePath returns the path that the go.mod of a module says, "" if it says none.
func modulePath(dir string) string {
	text, err := infile.ReadFile(filepath.Join(dir, "go.mod"), maxFile)
	if m := moduleLine.FindSubmatch(text); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// goroot returns GOROOT, "" if it is unknown. A gotach that was built with -trimpath does not know
// it, but the go command is in it.
func goroot() string {
	if build.Default.GOROOT != "" {
		return build.Default.GOROOT
	}
	path, err := exec.LookPath("go")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(filepath.Dir(path))
}

// A File is a source file.
type File struct {
	Text []byte

	reader  *Reader // nil: all may be shown
	name    string
	root    string
	extents []extent
}

// Read returns a file by its name in a profile, nil if it must not be read or is not there.
func (r *Reader) Read(name string) *File {
	ext := filepath.Ext(name)
	if !slices.Contains(extensions, ext) || !r.asked && ext != ".go" {
		return nil
	}
	for _, root := range r.roots {
		path := name
		if !filepath.IsAbs(name) {
			if root.cache {
				path = escape(path)
			}
			if root.module != "" {
				path = strings.TrimPrefix(path, root.module+"/")
			}
			path = filepath.Join(root.dir, path)
		}
		// What a link leads to counts, for the extension too.
		path, err := filepath.EvalSymlinks(path)
		if err != nil || filepath.Ext(path) != ext {
			continue
		}
		if rel, err := filepath.Rel(root.dir, path); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		text, err := infile.ReadFile(path, maxFile)
		if err != nil {
			continue
		}
		f := &File{Text: text, reader: r, name: path, root: root.dir}
		if !r.asked {
			f.extents = functions(text)
		}
		return f
	}
	return nil
}

// Shows reports whether a line may be shown that a profile says is in a function.
func (f *File) Shows(function string, line int) bool {
	if f.reader == nil {
		return true
	}
	if !f.reader.asked && !slices.ContainsFunc(f.extents, func(e extent) bool { return e.holds(function, line) }) {
		return false
	}
	f.reader.mu.Lock()
	defer f.reader.mu.Unlock()
	if f.reader.shown == nil {
		f.reader.shown = map[string]string{}
	}
	f.reader.shown[f.name] = f.root
	return true
}

// Text returns the text of a file if one of the frames that a profile has in it may be shown, else
// nil.
func (r *Reader) Text(name string, in []tachyon.Frame) []byte {
	if f := r.Read(name); f != nil && slices.ContainsFunc(in, func(x tachyon.Frame) bool { return f.Shows(x.Func, int(x.Line)) }) {
		return f.Text
	}
	return nil
}

// Shown returns the number of files of which something was shown, and the folders that they are in.
func (r *Reader) Shown() (n int, dirs []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, dir := range r.shown {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return len(r.shown), dirs
}

// escape writes capitals as the module cache does: !a for A.
func escape(path string) string {
	var b strings.Builder
	for _, r := range path {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('!')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
