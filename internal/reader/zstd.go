package reader

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"

	"github.com/gotach/profiler/internal/wire"
	"github.com/gotach/profiler/tachyon"
)

// maxWindow limits the memory of decompression. Writers use a window of 2 MiB. RFC 8878
// (3.1.1.1.2) recommends that every decoder support 8 MiB.
const maxWindow = 8 << 20

// A decompressor reads the sample data of a compressed region.
type decompressor struct {
	zstd   *zstd.Decoder
	frames *zstdFrames
}

func newDecompressor(r *Reader, region io.Reader) (*decompressor, error) {
	f := &zstdFrames{r: r, in: bufio.NewReaderSize(region, 64<<10)}
	z, err := zstd.NewReader(f,
		zstd.WithDecoderConcurrency(1), // no goroutines
		zstd.WithDecoderMaxWindow(maxWindow),
		// With low memory the decoder would move the whole window for each block.
		zstd.WithDecoderLowmem(false))
	if err != nil {
		return nil, err
	}
	return &decompressor{z, f}, nil
}

func (d *decompressor) Close() { d.zstd.Close() }

// Read implements io.Reader. Errors are FormatErrors or errors of the file.
func (d *decompressor) Read(p []byte) (int, error) {
	n, err := d.zstd.Read(p)
	if err == nil {
		return n, nil
	}
	if d.frames.err != nil && d.frames.err != io.EOF {
		return n, d.frames.err // has more details
	}
	if err == io.EOF {
		return n, err
	}
	return n, d.frames.errorf("zstd: %w", err)
}

// zstdFrames passes the sample region to the decompressor and checks that the region
// consists of one or more complete zstd frames. The decompressor itself would skip
// skippable frames and ignore up to three bytes of junk at the end. RFC 8878, 3.1.1 has
// the layout of frames and blocks.
type zstdFrames struct {
	r      *Reader
	in     *bufio.Reader
	offset int64 // position in the region
	left   int   // bytes up to the next header

	seen     bool // the first frame began
	inFrame  bool
	checksum bool  // the frame ends with a checksum
	err      error // the first error
}

// Read implements io.Reader.
func (f *zstdFrames) Read(p []byte) (int, error) {
	for f.left == 0 && f.err == nil {
		f.left, f.err = f.next()
	}
	if f.left == 0 {
		return 0, f.err
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.offset += int64(n)
	f.left -= n
	if err != nil {
		f.err, f.left = f.readError(err), 0
	}
	return n, f.err
}

// next checks the header of the next frame or block and returns the number of bytes
// up to the header after it.
func (f *zstdFrames) next() (int, error) {
	if f.inFrame {
		return f.block()
	}
	const shortest = 5
	b, err := f.in.Peek(shortest)
	switch {
	case len(b) == 0 && err == io.EOF && f.seen:
		return 0, io.EOF
	case len(b) >= 4 && binary.LittleEndian.Uint32(b) != wire.ZstdMagic:
		return 0, f.errorf("not a zstd frame: the sample region is damaged")
	case err != nil:
		return 0, f.readError(err)
	}
	descriptor := b[4]
	n := 5 + [4]int{0, 1, 2, 4}[descriptor&3] + [4]int{0, 2, 4, 8}[descriptor>>6] // dictionary id, content size
	if single := descriptor&0x20 != 0; !single {
		n++ // window
	} else if descriptor>>6 == 0 {
		n++ // content size
	}
	f.seen, f.inFrame, f.checksum = true, true, descriptor&4 != 0
	return n, nil
}

func (f *zstdFrames) block() (int, error) {
	const rle = 1
	b, err := f.in.Peek(3)
	if err != nil {
		return 0, f.readError(err)
	}
	head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	n := int(head >> 3)
	if head>>1&3 == rle {
		n = 1
	}
	n += 3
	if last := head&1 != 0; last {
		f.inFrame = false
		if f.checksum {
			n += 4
		}
	}
	return n, nil
}

func (f *zstdFrames) errorf(format string, args ...any) error {
	return f.r.errorAt(tachyon.HeaderSize+f.offset, format, args...)
}

// readError returns the error for a truncated region or a failed read.
func (f *zstdFrames) readError(err error) error {
	switch {
	case errors.Is(err, os.ErrClosed):
		return err
	case errors.Is(err, io.EOF):
		return f.errorf("truncated zstd data")
	}
	return f.r.ioError(tachyon.HeaderSize+f.offset, err)
}
