package unfinished

import (
	"bytes"
	"slices"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// Finish returns the header of the finished profile and all bytes of the profile after
// Point.Offset. samples and threads are the profile's total numbers. compress returns
// records as a zstd frame.
func (s *State) Finish(samples uint64, threads uint32, compress func([]byte) []byte) (tachyon.Header, []byte, error) {
	end := s.Records // end of the sample region
	if s.Compression != tachyon.CompressionNone {
		end = nil
		if s.Point.Open || len(s.Records) == 0 {
			end = wire.EndRegion(s.Compression, s.Point.Offset, s.Point.Open)
		}
		if len(s.Records) > 0 {
			end = append(end, compress(s.Records)...)
		}
	}
	h := tachyon.Header{
		Layout: tachyon.Layout(s.Layout), Start: s.Start, Interval: s.Interval, Compression: s.Compression,
		Python: s.Python, Config: s.Config, Samples: samples, Threads: threads,
	}
	var b bytes.Buffer
	b.Write(end)
	t := wire.NewTail(&b, &h, s.Point.Offset+int64(len(end)))
	t.Strings(s.Strings, s.NStrings)
	for _, m := range s.Metadata {
		t.String(m)
	}
	records := s.records(compress)
	t.Checksum(wire.CRC(s.Point.CRC, end), &tachyon.Section{Length: int64(len(records)), CRC32C: wire.CRC(0, records)}, int64(len(s.Frames)))
	t.Frames(s.Frames, s.NFrames)
	t.Records(records)
	_, err := t.End(s.Stats)
	return h, b.Bytes(), err
}

// records returns the record section: the blocks, and one more with the other records.
func (s *State) records(compress func([]byte) []byte) []byte {
	rest := s.Alone
	if s.Progress != nil {
		rest = wire.AppendProgress(slices.Clip(rest), s.Progress)
	}
	if len(rest) == 0 {
		return s.Blocks
	}
	if s.Compression == tachyon.CompressionNone {
		compress = nil
	}
	return wire.AppendBlock(slices.Clip(s.Blocks), rest, compress)
}
