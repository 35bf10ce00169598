// Package fleet has tests with many processes: their profiles go through gotach push into
// databases, which the peer tests start, and are queried there. The statements are those of
// docs/fleet.md.
package fleet
