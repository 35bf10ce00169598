package profiler

// newConfig applies options, then the environment as get gives it, then
// defaults. Warnings about the environment are logged; an option in error is
// the caller's to report.
func newConfig(opts []Option, get func(string) string) (config, error) {
	var c config
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o(&c); err != nil {
			return config{}, err
		}
	}
	warnings := c.environ(get)
	c.defaults()
	for _, w := range warnings {
		c.log().Warn("gotach: " + w)
	}
	return c, nil
}
