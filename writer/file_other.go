//go:build !unix

package writer

import "os"

const noFollow = 0

func trustedOwner(os.FileInfo) bool { return true }
