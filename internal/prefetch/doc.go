// Package prefetch fetches memory into the processor's caches before it is needed.
//
// The state of a hundred thousand threads is larger than the caches, and waiting for
// it takes longer than all other work on a sample. An ordinary load ahead of time does
// not help: the processor cannot retire later instructions until it is done, which
// was measured to make reading slower. Go has the instruction only in its runtime.
package prefetch
