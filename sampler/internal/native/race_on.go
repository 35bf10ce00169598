//go:build race && linux && (amd64 || arm64)

package native

const raceBuild = true
