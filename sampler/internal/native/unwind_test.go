// Not with -race: most of the running code is then the race detector, C code without frame pointers.

//go:build !race && linux && (amd64 || arm64)

package native

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"hash/adler32"
	"hash/crc32"
	"hash/crc64"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

//go:noinline
func repeat(until time.Time, f func()) {
	for time.Now().Before(until) {
		f()
	}
}

// TestAssembly samples assembly of the standard library. Some of it uses the frame pointer register for
// other things. Its stacks must have the callers anyway.
func TestAssembly(t *testing.T) {
	data := make([]byte, 1<<18)
	rand.Read(data)
	block, _ := aes.NewCipher(data[:16])
	gcm, _ := cipher.NewGCM(block)
	key, _ := rsa.GenerateKey(rand.Reader, 2048)
	sum := sha256.Sum256(data)
	_, signer, _ := ed25519.GenerateKey(rand.Reader)
	curve, _ := ecdh.P256().GenerateKey(rand.Reader)
	x, y := new(big.Int).SetBytes(data[:4096]), new(big.Int).SetBytes(data[4096:8192])
	product, sealed := new(big.Int), make([]byte, 0, len(data)+16) // reused, so that the collector has no work
	table := crc32.MakeTable(crc32.Castagnoli)
	for name, f := range map[string]func(){
		"sha256":  func() { sha256.Sum256(data) },
		"sha512":  func() { sha512.Sum512(data) },
		"sha1":    func() { sha1.Sum(data) },
		"md5":     func() { md5.Sum(data) },
		"crc32":   func() { crc32.ChecksumIEEE(data); crc32.Checksum(data, table) },
		"others":  func() { adler32.Checksum(data); crc64.Checksum(data, crc64.MakeTable(crc64.ISO)) },
		"aes-ctr": func() { cipher.NewCTR(block, data[:16]).XORKeyStream(data, data) },
		"aes-gcm": func() { gcm.Seal(sealed[:0], data[:12], data[16:], nil) },
		"rsa":     func() { rsa.SignPKCS1v15(nil, key, 0, sum[:]) },
		"ed25519": func() { ed25519.Sign(signer, data[:100]) },
		"p256":    func() { curve.ECDH(curve.PublicKey()) },
		"big":     func() { product.Mul(x, y) },
	} {
		t.Run(name, func(t *testing.T) {
			// On a busy machine one of several tries may have too many torn stacks. An error of the
			// source is in all of them.
			for try := 1; ; try++ {
				whole, total := withCallers(t, f)
				// Not all samples: some code of AES aligns SP, which the tables do not have.
				if lost := total - whole; lost <= 1+total/20 && whole > 0 {
					return
				}
				if try == 5 {
					t.Fatalf("of %d samples only %d have their callers", total, whole)
				}
			}
		})
	}
}

// withCallers samples f for some time. It returns how many samples there are and how many of them have
// f's callers.
func withCallers(t *testing.T, f func()) (whole, total int) {
	t.Helper()
	var begin, end time.Time
	r, stats := session(t, source.Config{Rate: 5000, Budget: 1}, func() {
		begin = time.Now()
		repeat(begin.Add(400*time.Millisecond), f)
		end = time.Now()
	})
	id := currentGoid()
	cut := map[string]int{}
	for _, s := range r.samples {
		stack := names(s.stack)
		if at := r.start.Add(s.time); at.Before(begin) || at.After(end) || s.goroutine != id || s.status&tachyon.OnCPU == 0 || slices.ContainsFunc(stack, func(n string) bool { return strings.Contains(n, "native.(*") }) {
			continue
		}
		if slices.ContainsFunc(stack, func(n string) bool { return strings.HasSuffix(n, ".repeat") }) {
			whole++
		} else {
			cut[strings.Join(stack, " < ")]++
		}
	}
	total = whole + int(r.torn)
	for stack, n := range cut {
		t.Logf("%d %s", n, stack)
		total += n
	}
	t.Logf("%d of %d samples have their callers; %+v", whole, total, stats)
	return whole, total
}
