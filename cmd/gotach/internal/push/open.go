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

// Open returns the target with a name such as otlp+http://collector:4318. The name for people has
// nothing that is secret. The key tells the target's cursor from others. Errors do not repeat the
// name: where a password is in it is not known then.
func Open(to string, o TargetOptions) (t Target, name, key string, err error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s is no valid URL; what is special in a user name or password must be escaped, such as %%25 for %%", vague(to))
	}
	for _, k := range Kinds {
		if k.Scheme != u.Scheme {
			continue
		}
		name, key = redacted(u), u.Redacted()
		if _, scheme, ok := strings.Cut(u.Scheme, "+"); ok {
			switch u.Scheme = scheme; {
			case u.Host == "":
				return nil, "", "", fmt.Errorf("%s names no host; it must be like %s", vague(to), k.Usage)
			case strings.Contains(u.EscapedPath()+u.RawQuery, "@") || u.Fragment != "": // the end of a password that has a slash
				return nil, "", "", fmt.Errorf("%s has an @ or # behind the host; escape them (%%40, %%23), and a / in a password (%%2F)", vague(to))
			}
		}
		t, err = k.open(u, o)
		return t, name, key, err
	}
	var usage []string
	for _, k := range Kinds {
		if k.Doc != "" {
			usage = append(usage, k.Usage)
		}
	}
	return nil, "", "", fmt.Errorf("%s is no target; it must be like %s", vague(to), strings.Join(usage, " or "))
}
