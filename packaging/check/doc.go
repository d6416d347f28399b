// Package check holds the test of the files for Kubernetes: they are decoded strictly
// with the types of its API, and ask for no privilege that docs/packages.md does not
// explain.
package check
