package stream

import (
	"strconv"
	"strings"

	"github.com/gotach/profiler/tachyon"
)

// ProcessLabel returns a fact about a session's process as a label of its goroutines. The keys are:
//
//   - host: the host's name.
//   - pid: the process id.
//   - process: host and process id, as "web-1/4711".
//   - service: the name of the service; if the session has none, that of the program.
//   - version: the version of the service; if the session has none, that of the main module, the
//     revision or the build of the program, whichever is known first.
//
// It returns false for other keys and for what is not known.
func ProcessLabel(s *tachyon.Session, key string) (value string, ok bool) {
	switch key {
	case "host":
		value = s.Host
	case "pid":
		if s.PID != 0 {
			value = strconv.Itoa(s.PID)
		}
	case "process":
		if s.Host != "" && s.PID != 0 {
			value = s.Host + "/" + strconv.Itoa(s.PID)
		}
	case "service":
		if value = s.Service; value == "" {
			value = s.Program
		}
	case "version":
		value = version(s)
	}
	return value, value != ""
}

// version returns the version of a session; see ProcessLabel.
func version(s *tachyon.Session) string {
	const short = 12 // characters of a revision or a build ID
	switch revision := s.VCS["vcs.revision"]; {
	case s.ServiceVersion != "":
		return s.ServiceVersion
	case s.Version != "" && s.Version != "(devel)":
		return s.Version
	case revision != "":
		revision = revision[:min(short, len(revision))]
		if s.VCS["vcs.modified"] == "true" {
			revision += "+dirty"
		}
		return revision
	case s.BuildID != "":
		// The last part of Go's own build ID depends on the program's content.
		id := s.BuildID[strings.LastIndexByte(s.BuildID, '/')+1:]
		return "build " + id[:min(short, len(id))]
	}
	return ""
}
