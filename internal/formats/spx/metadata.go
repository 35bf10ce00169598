package spx

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The metrics of sampled profiles. Every report has wt.
const (
	wallTime = "wt" // ns
	cpuTime  = "ct" // ns
	idleTime = "it" // ns
)

// knownMetrics lists the metrics that SPX writes, in the order of its files.
var knownMetrics = []string{
	"wt", "ct", "it",
	"zm", "zmac", "zmab", "zmfc", "zmfb", "zgr", "zgb", "zgc", "zif", "zil", "zuc", "zuf", "zuo", "zo", "ze",
	"mor", "io", "ior", "iow",
}

// documented are metrics that descriptions of the format name but SPX never wrote.
var documented = []string{"mu", "pmu"}

// Metadata is the JSON file of a report, its keys in their order. Strings that
// do not apply are "n/a".
type Metadata struct {
	Key                 string   `json:"key"`
	ExecTS              int64    `json:"exec_ts"` // start, Unix seconds
	HostName            string   `json:"host_name"`
	ProcessPID          int64    `json:"process_pid"`
	ProcessTID          int64    `json:"process_tid"`
	ProcessPWD          string   `json:"process_pwd"`
	CLI                 int      `json:"cli"` // 1, or 0 for a web request
	CLICommandLine      string   `json:"cli_command_line"`
	HTTPRequestURI      string   `json:"http_request_uri"`
	HTTPMethod          string   `json:"http_method"`
	HTTPHost            string   `json:"http_host"`
	CustomMetadata      *string  `json:"custom_metadata_str"`
	WallTimeMS          int64    `json:"wall_time_ms"`          // µs in spite of its name
	PeakMemoryUsage     int64    `json:"peak_memory_usage"`     // bytes
	CalledFunctionCount int64    `json:"called_function_count"` // functions of the report
	CallCount           int64    `json:"call_count"`
	RecordedCallCount   int64    `json:"recorded_call_count"` // calls in the report
	EnabledMetrics      []string `json:"enabled_metrics"`     // of the report, in its order

	counted bool // the counts were in the file
}

// maxMetadata bounds what is read of a JSON file; SPX's are below 40 KiB.
const maxMetadata = 1 << 20

// readMetadata reads a report's JSON file. The name is for errors.
func readMetadata(r io.Reader, name string) (*Metadata, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxMetadata+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(b) > maxMetadata {
		return nil, errorAt(name, maxMetadata, errors.New("longer than 1 MiB, not the metadata of an SPX report"))
	}
	m := &Metadata{}
	if err := json.Unmarshal(b, m); err != nil {
		return nil, errorAt(name, jsonOffset(err), fmt.Errorf("not the metadata of an SPX report: %w", err))
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(b, &keys); err == nil {
		_, functions := keys["called_function_count"]
		_, calls := keys["recorded_call_count"]
		m.counted = functions && calls
	}
	if err := checkMetrics(m.EnabledMetrics); err != nil {
		return nil, errorAt(name, int64(max(0, strings.Index(string(b), `"enabled_metrics"`))), err)
	}
	return m, nil
}

// errorAt says where a file is wrong: so many bytes from the start, after
// decompression.
func errorAt(file string, offset int64, err error) error {
	return fmt.Errorf("%s: at byte %d: %w", file, offset, err)
}

func jsonOffset(err error) int64 {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &typ):
		return typ.Offset
	}
	return 0
}

func checkMetrics(metrics []string) error {
	if !slices.Contains(metrics, wallTime) {
		return fmt.Errorf("enabled_metrics are %q: wt is missing, which every report has", metrics)
	}
	for i, m := range metrics {
		if !slices.Contains(knownMetrics, m) && !slices.Contains(documented, m) {
			return fmt.Errorf("metric %.20q is unknown", m)
		}
		if slices.Contains(metrics[:i], m) {
			return fmt.Errorf("metric %s is there twice", m)
		}
	}
	return nil
}

// Write writes the JSON file.
func (m *Metadata) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(m)
}

// sampledNote begins the custom metadata of reports made from sampled profiles.
const sampledNote = "gotach: sampled every "

// sampled says whether gotach made the report, which escapes names.
func (m *Metadata) sampled() bool {
	return m.CustomMetadata != nil && strings.HasPrefix(*m.CustomMetadata, sampledNote)
}

// interval returns the time between two samples of a report that gotach made.
func (m *Metadata) interval() time.Duration {
	if !m.sampled() {
		return 0
	}
	text := strings.TrimPrefix(*m.CustomMetadata, sampledNote)
	if i := strings.IndexAny(text, ", "); i >= 0 {
		text = text[:i]
	}
	d, _ := time.ParseDuration(strings.TrimSuffix(text, "."))
	return max(d, 0)
}
