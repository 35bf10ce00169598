package reader

import (
	"encoding/binary"
	"encoding/json"

	"github.com/gotach/profiler/internal/decode"
	"github.com/gotach/profiler/internal/unfinished"
	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// tables adds what is new in the tables of strings and frames.
func (f *Follower) tables(st *unfinished.State) error {
	text := string(st.Strings)
	for at := 0; at < len(text); {
		size, k := binary.Uvarint(st.Strings[at:])
		f.strings = append(f.strings, text[at+k:at+k+int(size)]) // Load returns whole entries
		at += k + int(size)
	}
	frames := f.r.Frames()
	for n := 0; n < len(st.Frames); {
		e := entry{b: st.Frames, n: n}
		frame, file, fn := e.frame(f.r.header.Layout, len(f.strings))
		if e.err != nil {
			return f.r.errorAt(0, "the journal's frame %d: %w", len(frames), e.err)
		}
		frame.File, frame.Func = f.strings[file], f.strings[fn]
		frames, n = append(frames, frame), e.n
	}
	f.r.setFrames(frames)
	f.known.Strings += len(st.Strings)
	f.known.NStrings += st.NStrings
	f.known.Frames += len(st.Frames)
	return nil
}

// facts reads what is new in the metadata.
func (f *Follower) facts(st *unfinished.State, news News) error {
	m := &tachyon.Metadata{}
	for _, text := range st.Metadata {
		if kind, ok := metadataKind(text); ok && kind == tachyon.KindSession {
			if err := decodeMetadata(m, kind, text); err != nil {
				return f.r.errorAt(0, "the journal's metadata: %w", err)
			}
		}
	}
	f.session = m.Session
	var progress []byte
	each := func(rec decode.Record) error {
		switch {
		case rec.Progress != nil:
			progress = append(progress[:0], rec.Progress...)
		case rec.Goroutine != nil && news.Goroutine != nil:
			news.Goroutine(rec.Goroutine)
		case rec.Object != nil && news.Object != nil:
			o := &tachyon.Object{}
			if err := json.Unmarshal(rec.Object, o); err != nil {
				return err
			}
			news.Object(o)
		}
		return nil
	}
	for blocks := st.Blocks; len(blocks) > 0; {
		h := decode.CutBlock(blocks)
		b, err := f.blocks.Decode(h, blocks[wire.BlockHeader:][:h.Stored])
		if err == nil {
			_, err = decode.Records(b, each)
		}
		if err != nil {
			return f.r.errorAt(0, "the journal's records: %w", err)
		}
		f.known.Records += uint64(h.Records)
		blocks = blocks[wire.BlockHeader+int(h.Stored):]
	}
	f.known.Blocks += len(st.Blocks)
	if _, err := decode.Records(st.Alone, each); err != nil {
		return f.r.errorAt(0, "the journal's records: %w", err)
	}
	if st.Progress != nil {
		progress = st.Progress
	}
	if f.session == nil || progress == nil {
		return nil
	}
	var p tachyon.Progress
	if err := json.Unmarshal(progress, &p); err != nil {
		return f.r.errorAt(0, "the journal's progress: %w", err)
	}
	p.Describe(f.session)
	if err := decode.CheckSession(f.session); err != nil {
		return f.r.errorAt(0, "the journal's progress: %w", err)
	}
	return nil
}
