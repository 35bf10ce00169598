package e2e

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gotach/profiler/internal/testenv"
)

// commands returns the gotach and go commands of a page: lines of its blocks, and what stands in backticks.
func commands(page string) (list []string) {
	add := func(line string) {
		line, _, _ = strings.Cut(strings.TrimPrefix(line, "$ "), " #")
		line = strings.TrimSpace(line)
		if regexp.MustCompile(`^([A-Z_]+=\S+ )*(gotach|go)( [a-z]|$)`).MatchString(line) && !slices.Contains(list, line) {
			list = append(list, line)
		}
	}
	for _, block := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```\n").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(block[2]) {
			if block[1] == "sh" || strings.HasPrefix(line, "$ ") {
				add(line)
			}
		}
	}
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(page), -1) {
		add(m[1])
	}
	return list
}

// Every command gotach and go in the documents works as it stands, on a small profile. TestDocNames looks at go test, and TestPeerReadmeProfile
// runs what the README says about programs.
func TestDocCommands(t *testing.T) {
	testenv.Long(t)
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "app.tach")
	run(t, ".", nil, command(t), "demo", "-o", profile, "-d", "300ms")
	picture(t, profile)
	var ran, received atomic.Int32
	var tried sync.Map // a command of several pages is tried once
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(receiver.Close)
	t.Cleanup(func() {
		if ran.Load() < 60 || received.Load() == 0 {
			t.Errorf("%d commands ran, and push sent %d messages", ran.Load(), received.Load())
		}
	})
	here := strings.NewReplacer("stacks PID", "stacks "+strconv.Itoa(os.Getpid()), "record PID", "record "+strconv.Itoa(os.Getpid())+" -d 100ms", "DIR", "profiles", "http://collector:4318", receiver.URL, ":9464", "127.0.0.1:0", "-d 1m", "-d 100ms", "libc.sleepSyscall", "demoMutex")
	times := regexp.MustCompile(`--since [\d.]+s --until [\d.]+s`) // of a recording that is longer
	for _, page := range docs(t) {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, profile)
			for _, c := range commands(read(t, page)) {
				c = strings.TrimPrefix(c, "go run ./cmd/")
				_, again := tried.LoadOrStore(c, true)
				switch {
				case again:
				case strings.Contains(c, "toy"): // of a recipe: it works when the recipe was followed
				case strings.HasPrefix(c, "gotach"):
					ran.Add(1)
					gotachCommand(t, dir, times.ReplaceAllString(here.Replace(c), "--since 0s --until 1s"))
				default:
					goCommand(t, dir, c)
				}
			}
		})
	}
}

// picture checks that the report in README.md has the sections that a report has.
func picture(t *testing.T, profile string) {
	_, shown, _ := strings.Cut(read(t, "README.md"), "<!-- picture: gotach report demo.tach -->")
	shown, _, _ = strings.Cut(shown, "<!-- /picture -->")
	sections := func(text string) (list []string) {
		for _, line := range regexp.MustCompile(`(?m)^ *[A-Z]+( +[A-Z]+)+$`).FindAllString(text, -1) {
			list = append(list, strings.Join(strings.Fields(line), " "))
		}
		return list
	}
	if got, want := sections(shown), sections(run(t, ".", nil, command(t), "report", profile)); len(want) < 4 || !slices.Equal(got, want) {
		t.Errorf("the report in README.md has the sections %q, a report of the demo %q", got, want)
	}
}

// folder returns a module with a test, in which all profiles that the documents name are the given one.
func folder(t *testing.T, profile string) string {
	dir := t.TempDir()
	must := func(err error) {
		testenv.OK(t, err)
	}
	must(os.Mkdir(filepath.Join(dir, "profiles"), 0o755))
	b, err := os.ReadFile(profile)
	must(err)
	for _, name := range []string{"app", "app.1", "old", "demo", "test", "before", "after", "nats", "sqlite", "prometheus", "profiles/app.1"} {
		must(os.WriteFile(filepath.Join(dir, name+".tach"), b, 0o600)) // no link: some commands write to these files
	}
	must(os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.25\n"), 0o644))
	must(os.WriteFile(filepath.Join(dir, "m_test.go"), []byte("package m\n\nimport (\n\t\"testing\"\n\t\"time\"\n)\n\nfunc TestSearch(*testing.T) { time.Sleep(100 * time.Millisecond) }\n"), 0o644))
	return dir
}

// gotachCommand runs a command of gotach. What has no arguments is a name, whose help must be there.
func gotachCommand(t *testing.T, dir, c string) {
	words := strings.Fields(c)
	switch {
	case len(words) == 2:
		c += " --help"
	case words[1] == "view":
		view(t, dir, words[2])
		return
	case words[1] == "push":
		c += " --once"
	case words[1] == "demo" && !strings.Contains(c, "-d "):
		c += " -d 100ms"
	}
	out, err := shell(dir, c)
	if words[1] == "top" && strings.Contains(out, "it needs a terminal") || strings.Contains(strings.ToLower(out), " core: no such file") {
		return // so the arguments were right
	}
	if err != nil || out == "" && !strings.Contains(c, " -o ") {
		t.Errorf("%s: %v\n%s", c, err, out)
	}
}

// toolHelps has what each tool of the repository prints for -h.
var toolHelps sync.Map

// goCommand tries a go command.
func goCommand(t *testing.T, dir, c string) {
	_, arguments, _ := strings.Cut(c, "go ")
	words := append(strings.Fields(arguments), "")
	switch {
	case strings.HasSuffix(c, "go test -run X ."): // in the reader's module
		if out, err := shell(dir, c); err != nil {
			t.Errorf("%s: %v\n%s", c, err, out)
		}
	case words[0] == "test": // TestDocNames looks for the tests
	case words[0] == "install" || words[0] == "mod" || arguments == "run .": // by TestPeerReadmeProfile
	case strings.Contains(arguments, "@"): // the network
	case words[0] == "tool" && len(words) == 3:
		if out, err := shell(dir, "go tool -n "+words[1]); err != nil {
			t.Errorf("%s: %v\n%s", c, err, out)
		}
	case words[0] == "generate":
		if out, err := shell(root(t), "go generate -n "+words[1]); err != nil || out == "" {
			t.Errorf("%s does nothing: %v\n%s", c, err, out)
		}
	case words[0] == "run":
		tool, _ := toolHelps.LoadOrStore(words[1], sync.OnceValues(func() (string, error) { return shell(root(t), "go run "+words[1]+" -h") }))
		help, err := tool.(func() (string, error))()
		if !strings.Contains(help, "Usage of ") {
			t.Errorf("%s: %v\n%s", c, err, help)
		}
		for _, m := range regexp.MustCompile(` (-[a-z]+)`).FindAllStringSubmatch(arguments, -1) {
			if !strings.Contains(help, "  "+m[1]) {
				t.Errorf("%s: no flag %s in\n%s", c, m[1], help)
			}
		}
	default:
		t.Errorf("nothing tries %s", c)
	}
}

// shell runs a command for which gotach is in the PATH.
func shell(dir, c string) (string, error) {
	path, err := gotach()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("sh", "-c", c)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(path)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// view runs gotach view until it says where the page is.
func view(t *testing.T, dir, file string) {
	cmd := exec.Command(command(t), "view", "--no-open", file)
	cmd.Dir = dir
	out := testenv.Must(cmd.StdoutPipe())
	testenv.OK(t, cmd.Start())
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil || !strings.Contains(line, "http://127.0.0.1:") {
		t.Errorf("gotach view %s: %v, %q", file, err, line)
	}
}
