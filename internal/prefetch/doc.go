// Package prefetch asks the processor for memory that is needed soon.
//
// The state of a hundred thousand threads is larger than the caches, and to wait
// for it costs more than all else that is done for a sample. An ordinary load
// ahead of time is no remedy: the processor cannot retire what follows it until
// it is done. (Measured: it makes reading slower.) Go has the instruction in its
// runtime only.
package prefetch
