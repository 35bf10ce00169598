package sampler

import "github.com/gotach/profiler/sampler/internal/source"

// StartWith is Start with other sources. native returns a source, or nil and a reason.
func StartWith(cfg Config, sink Sink, native func() (source.Source, string), portable source.Source) (*Sampler, error) {
	return start(cfg, sink, native, func() (source.Source, string) { return portable, "" })
}

// Sources returns the names of the sources that this system has.
func Sources() []string {
	if src, _ := nativeSource(); src != nil {
		return []string{Native, Portable}
	}
	return []string{Portable}
}
