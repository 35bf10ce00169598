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
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gotach/profiler/internal/testenv"
	"github.com/gotach/profiler/sampler/internal/source"
	"github.com/gotach/profiler/tachyon"
)

// TestAssembly samples assembly of the standard library. Some of it uses the frame pointer register for
// other things. Its stacks must have the callers anyway.
func TestAssembly(t *testing.T) {
	testenv.Long(t)
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
	kinds := []func(){
		func() { sha256.Sum256(data) },
		func() { sha512.Sum512(data) },
		func() { sha1.Sum(data) },
		func() { md5.Sum(data) },
		func() { crc32.ChecksumIEEE(data); crc32.Checksum(data, table) },
		func() { adler32.Checksum(data); crc64.Checksum(data, crc64.MakeTable(crc64.ISO)) },
		func() { cipher.NewCTR(block, data[:16]).XORKeyStream(data, data) },
		func() { gcm.Seal(sealed[:0], data[:12], data[16:], nil) },
		func() { rsa.SignPKCS1v15(nil, key, 0, sum[:]) },
		func() { ed25519.Sign(signer, data[:100]) },
		func() { curve.ECDH(curve.PublicKey()) },
		func() { product.Mul(x, y) },
		func() { _ = time.Now() }, // in the vDSO
	}
	id, own := currentGoid(), runtime.FuncForPC(reflect.ValueOf(kinds[0]).Pointer()).Name()
	own = strings.TrimRight(own, "0123456789") // the names of the functions above but for their number
	var mu sync.Mutex
	whole, seen := 0, map[string]int{} // stacks, and those by function of kinds
	r := newRecorder()
	r.keep = func(s *taken) bool {
		mu.Lock()
		defer mu.Unlock()
		whole++
		for _, f := range s.stack {
			if strings.HasPrefix(f.Func, own) {
				seen[f.Func]++
			}
		}
		return s.goroutine == id && s.status&tachyon.OnCPU != 0
	}
	sessionWith(t, source.Config{Rate: 5000}, r, func() {
		for i, f := range kinds {
			name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
			enough := func() bool {
				for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
					f()
				}
				mu.Lock()
				defer mu.Unlock()
				return seen[name] >= 20
			}
			testenv.Await(enough)
			testenv.FailIf(t, !enough(), "kind %d has too few samples with callers: %v", i, seen)
		}
	})
	for _, s := range r.samples {
		testenv.Same(t, names(s.stack), s.stack[len(s.stack)-1].Func, "testing.tRunner")
	}
	// Some code of AES aligns SP, which the tables do not have. Torn are also stacks of other goroutines, more of them in an emulator that
	// waits for a core: there it was 10 once, and mostly 0. A kind whose callers are not found has failed above.
	testenv.Within(t, "torn stacks", r.torn, 0, int64(1+whole/20))
}
