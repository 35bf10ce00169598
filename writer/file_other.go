//go:build !unix

package writer

const noFollow = 0
