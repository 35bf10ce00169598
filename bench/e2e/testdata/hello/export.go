//go:build export

package main

import _ "github.com/gotach/profiler/export"
