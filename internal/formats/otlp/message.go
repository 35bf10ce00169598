package otlp

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	"github.com/gotach/profiler/internal/formats/protobuf"
	"github.com/gotach/profiler/internal/stream"
	"github.com/gotach/profiler/tachyon"
)

// scope is the name of what made the profiles.
const scope = "github.com/gotach/profiler"

// Message returns the message. The Encoder can be used further.
func (e *Encoder) Message(a *About) []byte {
	d := &e.dict
	mapping := d.mapping(a)
	nanoseconds := d.text("nanoseconds")
	kind := func(name string) []byte {
		return protobuf.Number(protobuf.Number(nil, 1, d.text(name)), 2, nanoseconds)
	}
	wall, cpu := kind("wall"), []byte(nil)
	if len(e.cpu) > 0 {
		cpu = kind("cpu")
	}
	b := make([]byte, 0, e.Size()+4096)
	profiles := protobuf.Message(nil, scopeScope, protobuf.Message(nil, scopeName, scope))
	if len(e.wall) > 0 || len(e.cpu) == 0 {
		profiles = protobuf.Message(profiles, scopeProfiles, e.profile(wall, e.wall, a.WallID, a))
	}
	if len(e.cpu) > 0 {
		profiles = protobuf.Message(profiles, scopeProfiles, e.profile(cpu, e.cpu, a.CPUID, a))
	}
	resource := protobuf.Message(nil, resourceResource, a.resource())
	b = protobuf.Message(b, dataResources, protobuf.Message(resource, resourceScopes, profiles))

	tables := protobuf.Message(protobuf.Message(nil, dictMappings, ""), dictMappings, mapping)
	size := len(tables) + d.size()
	b = protobuf.Varint(protobuf.Varint(b, dataDictionary<<3|2), uint64(size))
	for _, t := range [...][]byte{tables, d.locations.b, d.functions.b, d.links.b, d.strings.b, d.attributes.b, d.stacks.b} {
		b = append(b, t...)
	}
	return b
}

// profile returns the message of a profile.
func (e *Encoder) profile(kind, samples []byte, id [16]byte, a *About) []byte {
	b := make([]byte, 0, len(samples)+128)
	b = append(protobuf.Message(b, profileType, kind), samples...)
	if !a.Start.IsZero() {
		b = protobuf.Fixed(b, profileTime, uint64(a.Start.UnixNano()))
	}
	b = protobuf.Number(b, profileDuration, uint64(max(a.Duration, 0)))
	if a.Interval > 0 {
		b = protobuf.Number(protobuf.Message(b, profilePeriodType, kind), profilePeriod, uint64(a.Interval))
	}
	if id != [16]byte{} {
		b = protobuf.Message(b, profileID, id[:])
	}
	return b
}

// mapping returns the message of the only mapping.
func (d *dictionary) mapping(a *About) []byte {
	file, build := a.Program, ""
	if s := a.Session; s != nil {
		build = s.BuildID
		if s.Executable != "" {
			file = s.Executable
		}
	}
	m := protobuf.Number(nil, mappingFile, d.text(file))
	if build == "" {
		return m
	}
	key := "process.executable.build_id.gnu"
	if strings.Contains(build, "/") {
		key = "process.executable.build_id.go"
	}
	return protobuf.Message(m, mappingAttributes, protobuf.Varint(nil, uint64(d.attribute(key, text(build)))))
}

// resource returns the message of the resource.
func (a *About) resource() (b []byte) {
	given := map[string]bool{}
	for _, r := range a.Resource {
		given[r[0]] = true
	}
	add := func(key string, v value) {
		if v == text("") || given[key] {
			return
		}
		b = protobuf.Message(b, resourceAttribute, protobuf.Message(protobuf.Message(nil, 1, utf8(key)), 2, v.any()))
	}
	s := a.Session
	if s == nil {
		s = &tachyon.Session{Program: a.Program}
	}
	service, version := a.Service, a.ServiceVersion
	if service == "" {
		service, _ = stream.ProcessLabel(s, "service")
	}
	if version == "" {
		version, _ = stream.ProcessLabel(s, "version")
	}
	add("service.name", text(service))
	add("service.version", text(version))
	if s.PID != 0 {
		add("service.instance.id", text(instance(s)))
	}
	add("host.name", text(s.Host))
	if s.PID != 0 {
		add("process.pid", whole(int64(s.PID)))
	}
	add("process.executable.path", text(s.Executable))
	if s.GoVersion != "" {
		add("process.runtime.name", text("go"))
		add("process.runtime.version", text(s.GoVersion))
	}
	add("os.type", text(s.GOOS))
	add("host.arch", text(s.GOARCH))
	add("vcs.ref.head.revision", text(s.VCS["vcs.revision"]))
	if modified, err := strconv.ParseBool(s.VCS["vcs.modified"]); err == nil && modified {
		add("vcs.modified", yes)
	}
	clear(given)
	for _, r := range a.Resource {
		if !given[r[0]] {
			add(r[0], text(r[1]))
			given[r[0]] = true
		}
	}
	return b
}

// instance returns a UUID that is the same for all files of a session.
func instance(s *tachyon.Session) string {
	start := s.SessionStart
	if start.IsZero() {
		start = s.Start
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%q %d %d", s.Host, s.PID, start.UnixMicro()))
	h[6], h[8] = h[6]&0x0f|0x80, h[8]&0x3f|0x80 // version 8: of our own making
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
