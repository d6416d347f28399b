// Package regbench measures what the registration of memory costs: for each
// transfer anew, found in a cache (transfer/mrcache) at several shares of hits,
// or once for a whole pool; and what another region costs when much is
// registered already.
package regbench
