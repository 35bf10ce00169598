// Package browser looks at the page of a profile in Chromium. The profiles are those of package
// pagetest.
//
//	go test -tags peers ./bench/browser
package browser
