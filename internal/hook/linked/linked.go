// Package linked tells the root package that the program imports package export.
//
// Package auto starts a session in its init function, and Go initializes it before
// package export, which depends on more. This package depends on package hook
// alone. Go initializes packages in the order of their import paths as soon as
// their imports are initialized; the path of this package comes before that of
// package writer, which the root imports. So this one is always earlier than
// the root and auto.
package linked

import "github.com/gotach/profiler/internal/hook"

func init() { hook.ExportLinked = true }
