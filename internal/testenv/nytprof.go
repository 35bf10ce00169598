package testenv

import (
	"os/exec"
	"testing"
)

// nytprofTools are the commands of Devel::NYTProf.
var nytprofTools = []string{"nytprofhtml", "nytprofcsv", "nytprofcg", "nytprofcalls", "nytprofpf", "nytprofmerge"}

// NYTProf returns the paths of perl and of Devel::NYTProf's six commands, by name.
func NYTProf(t testing.TB) map[string]string {
	t.Helper()
	const install = "apt-get install libdevel-nytprof-perl"
	paths := map[string]string{"perl": Command(t, "perl", install)}
	if exec.Command(paths["perl"], "-MDevel::NYTProf::Data", "-e1").Run() != nil {
		Skip(t, "no Devel::NYTProf: get it with "+install)
	}
	for _, name := range nytprofTools {
		paths[name] = Command(t, name, install)
	}
	return paths
}
