package profile

import (
	"strings"
	"testing"
)

// What stands for a stack without the program's own code says what the goroutine does.
func TestOwnCode(t *testing.T) {
	const root = "/usr/lib/go/src/"
	frames := []Frame{
		{Func: "[IO wait]"},
		{Func: "internal/poll.runtime_pollWait", File: root + "runtime/netpoll.go"},
		{Func: "sync.(*Cond).Wait", File: root + "sync/cond.go"},
		{Func: "os.(*File).Read", File: root + "os/file.go"},
		{Func: "io.copyBuffer", File: root + "io/io.go"},
		{Func: "net.(*conn).Read", File: root + "net/net.go"},
		{Func: "os/exec.(*Cmd).writerDescriptor.func1", File: root + "os/exec/exec.go"},
		{Func: "net/http.(*connReader).backgroundRead", File: root + "net/http/server.go"},
		{Func: "net/http.(*conn).serve", File: root + "net/http/server.go"},
		{Func: "x.org/pool.(*Pool).clean", File: "/root/go/pkg/mod/x.org/pool@v1.2.3/pool.go"},
		{Func: "main.serve", File: "/src/app/main.go"},
	}
	for _, c := range []struct{ stack, want string }{
		{"[IO pollWait File).Read copyBuffer exec", "exec"},
		{"[IO pollWait conn).Read backgroundRead", "backgroundRead"},
		{"Cond backgroundRead conn).serve", "backgroundRead"},
		{"Cond clean", "clean"},
		{"[IO pollWait backgroundRead clean main.serve", "main.serve"},
		{"[IO pollWait File).Read copyBuffer", "File).Read"},
		{"[IO pollWait", "pollWait"},
		{"[IO", ""},
		{"", ""},
	} {
		o := ownCode{p: &Profile{Frames: frames}, kind: make([]Code, len(frames))}
		var stack []uint32
		for part := range strings.FieldsSeq(c.stack) {
			for i := range frames {
				if strings.Contains(frames[i].Func, part) {
					stack = append(stack, uint32(i))
					break
				}
			}
		}
		id, ok := o.frame(stack)
		if ok != (c.want != "") || ok && !strings.Contains(frames[id].Func, c.want) {
			t.Errorf("%s: %s %t, want %s", c.stack, frames[id].Func, ok, c.want)
		}
	}
}
