package push

import (
	"fmt"
	"net/url"
	"strings"
)

// A Kind is a kind of target.
type Kind struct {
	Scheme string // what the name of such a target begins with
	Usage  string // an example of a name
	Doc    string // one line
	open   func(to *url.URL, o TargetOptions) (Target, error)
}

// Kinds are all kinds of targets.
var Kinds = []Kind{
	{"otlp+http", "otlp+http://HOST:4318", "an OpenTelemetry receiver; otlp+https too", NewOTLP},
	{"otlp+https", "otlp+https://HOST", "", NewOTLP},
	{"pyroscope+http", "pyroscope+http://HOST:4040", "Grafana Pyroscope; pyroscope+https too", NewPyroscope},
	{"pyroscope+https", "pyroscope+https://HOST", "", NewPyroscope},
	{"parquet", "parquet:DIRECTORY", "tables for databases, as Parquet files", NewTables},
}

// Open returns the target with a name such as otlp+http://collector:4318. The name for people and for the cursor is without a
// password.
func Open(to string, o TargetOptions) (t Target, name string, err error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, "", fmt.Errorf("%q is no target: %w", to, err)
	}
	for _, k := range Kinds {
		if k.Scheme != u.Scheme {
			continue
		}
		name = u.Redacted()
		if _, scheme, ok := strings.Cut(u.Scheme, "+"); ok {
			if u.Scheme = scheme; u.Host == "" {
				return nil, "", fmt.Errorf("%q names no host; it must be like %s", to, k.Usage)
			}
		}
		t, err = k.open(u, o)
		return t, name, err
	}
	var usage []string
	for _, k := range Kinds {
		if k.Doc != "" {
			usage = append(usage, k.Usage)
		}
	}
	return nil, "", fmt.Errorf("%q is no target; it must be like %s", to, strings.Join(usage, " or "))
}
