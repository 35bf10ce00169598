//go:build !race

package e2e

const slowed = false
