// Package nytprof reads and writes profiles of Perl's Devel::NYTProf. Its API is not promised (v0):
// see docs/compatibility.md. The format is 5.0, so that its tools (nytprofhtml and its family) open
// gotach's profiles as their own and gotach opens theirs.
//
// [Reader] and [Writer] know a file as a stream of chunks, as
// Devel::NYTProf::ReadStream does. [Data] is a whole file in memory: files with
// the time of each line, subs with their callers, the call tree. [Load] and
// [Data.Write] go between it and a file.
//
// # The file
//
// The facts here are those of Devel::NYTProf 6.12. A file is the line
// "NYTProf 5 0" and then chunks up to its end; there is no end marker. Each
// chunk begins with one byte that says its kind:
//
//	#  COMMENT       the rest of the line
//	:  ATTRIBUTE     the rest of the line, key=value
//	!  OPTION        the rest of the line, key=value
//	z  START_DEFLATE all further chunks are in the zlib stream (RFC 1950) that begins here
//	P  PID_START     u32 pid, u32 parent, nv epoch seconds
//	p  PID_END       u32 pid, nv epoch seconds
//	@  NEW_FID       u32 fid, u32 eval fid, u32 eval line, u32 flags, u32 size, u32 mtime, str name
//	+  TIME_LINE     i32 ticks, u32 fid, u32 line
//	*  TIME_BLOCK    i32 ticks, u32 fid, u32 line, u32 block line, u32 sub line
//	-  DISCOUNT      nothing; the next time chunk does not count as an execution
//	>  SUB_ENTRY     u32 caller fid, u32 caller line
//	<  SUB_RETURN    u32 depth (from 1), nv inclusive ticks, nv exclusive ticks, str sub
//	S  SRC_LINE      u32 fid, u32 line, str text
//	s  SUB_INFO      u32 fid, str name, u32 first line, u32 last line
//	c  SUB_CALLERS   u32 fid, u32 line, str caller, u32 count, nv inclusive, nv exclusive,
//	                 nv recursive seconds, u32 depth, str called
//
// Of these primitives:
//
//	u32  below 0x80 one byte; below 0x4000 two, 10xxxxxx first; below 0x200000 three,
//	     110xxxxx first; below 0x10000000 four, 1110xxxx first; else 0xFF and four
//	     bytes. Big-endian. Longer forms than needed are read as well.
//	i32  its two's complement bits as u32
//	nv   a double as the machine has it; here little-endian
//	str  ' (bytes) or " (UTF-8), u32 length, bytes
//
// Strings need not be valid UTF-8: perl writes Latin-1 names with '.
//
// # A sampled profile
//
// NYTProf counts and times every statement and call; gotach samples. [Write]
// says it so that Perl's tools show the right times without a warning:
//
//   - A function is a sub, with "::" between import path and symbol: what Perl
//     takes for a package and its sub. Its lines are those of the function in the
//     source, or those that were seen.
//   - A sample is a statement of the innermost line that took the sample's weight,
//     in ticks of 100 ns. Statements and calls count samples.
//   - Each call on the stack is a SUB_CALLERS: inclusive time goes to a function's
//     outermost call, that of inner ones is recursive time.
//   - A goroutine's first function is called by runtime::goexit in the file
//     "(goroutine roots)"; what it waits for is a sub such as runtime::[select] in
//     the file "(no source)".
//   - SUB_RETURNs hold the call tree, for the flame graph.
//   - The process lives as long as all goroutines together, since percentages are
//     of its life. The session's duration is an attribute of gotach's.
//
// The dialect that Pynytprof writes has the same first lines and other records;
// it is package pynytprof's.
package nytprof
