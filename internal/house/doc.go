// Package house is tests of the tree as a whole: which package may import which,
// what each brings along, that everything exported is explained, and what the
// exported API is. The house that they hold the tree to is drawn in
// docs/architecture.md, what a user of the packages may rely on is told in
// docs/library.md.
package house
