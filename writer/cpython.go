package writer

// configWall is the config word of a wall-clock profile whose features are unknown.
const configWall = 1

// CPythonInfo has the fields of the CPython315 layout that the document's layout lacks.
type CPythonInfo struct {
	Version [3]uint8 // version of the profiled Python; zero for a Go program
	Config  uint32   // mode and features, as in tachyon.Header; not checked
	Stats   []byte   // the statistics block; nil: none
}
