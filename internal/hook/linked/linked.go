// Package linked tells sessions that the program imports package export.
//
// Package auto starts a session in its init function. Go may initialize auto before export:
// that depends on export's dependencies. Package linked depends only on package hook. Go
// initializes packages in the order of their import paths, each after its imports. The path
// of package linked comes before that of package writer, which sessions import. So Go
// always initializes linked before internal/session, the root and auto.
package linked

import "github.com/gotach/profiler/internal/hook"

func init() { hook.ExportLinked = true }
