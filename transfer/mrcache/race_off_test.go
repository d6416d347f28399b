//go:build !race

package mrcache_test

const raceEnabled = false
