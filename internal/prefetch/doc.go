// Package prefetch loads memory into the processor's caches before it is needed.
//
// The state of a hundred thousand threads is larger than the caches. A wait for memory takes
// longer than all other work on a sample. An ordinary early load does not help: the processor
// cannot retire later instructions before the load is done, and measurements showed slower
// reading. Go uses the prefetch instruction only in its runtime and does not export it.
package prefetch
