package nytprof

// For the tests that need the whole of gotach and so are outside of the package.
var (
	LoadInPerl = loadInPerl
	RunTools   = runTools
	PerlName   = perlName
	Progress   = progress
)
