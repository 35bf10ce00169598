// Package native sees every goroutine without stopping the program.
package native
