package reader

import "github.com/gotach/profiler/tachyon"

// IsObject reports whether a frame's line is the number of an object; see [tachyon.Object].
func IsObject(f *tachyon.Frame) bool {
	n := len(f.Func)
	return f.File == "" && f.Line > 0 && n > 2 && f.Func[0] == '[' && f.Func[n-1] == ']'
}
