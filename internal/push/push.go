// Package push sends the profiles in a directory to other programs. A program that is profiled writes files and
// deletes old ones; these files are the buffer, so the program itself sends nothing.
//
// A [Target] is where profiles go. It gets a [Batch] of one or several files, and says with the kind of its error whether
// the batch is to come again, to be cut, or never to come again. What comes twice after a crash has the same
// ids, so that a target or what is behind it recognises it.
package push
