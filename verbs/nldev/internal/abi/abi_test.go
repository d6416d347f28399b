package abi

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every number that the machine's own header also has must be the same there.
// PEERDIRECT_RDMA_NETLINK_H names another header, say that of a newer kernel.
func TestNumbersAgreeWithHeader(t *testing.T) {
	path := os.Getenv("PEERDIRECT_RDMA_NETLINK_H")
	if path == "" {
		path = "/usr/include/rdma/rdma_netlink.h"
	}
	header, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("needs the kernel's headers, of linux-libc-dev: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	theirs := enumerators(string(header))

	file, err := parser.ParseFile(token.NewFileSet(), "abi.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		name := spec.Names[0].Name
		ours, _ := strconv.Atoi(spec.Values[0].(*ast.BasicLit).Value)
		if want, ok := theirs[name]; ok {
			compared++
			if ours != want {
				t.Errorf("%s is %d, %s says %d", name, ours, path, want)
			}
		}
		return true
	})
	if compared < 100 {
		t.Errorf("only %d names found in %s: the comparison has lost its footing", compared, path)
	}
}

// enumerators reads the values of every enum in C source that uses nothing but
// counting, literals, shifts of 1 and earlier names.
func enumerators(source string) map[string]int {
	source = regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(source, "")
	values := map[string]int{}
	for _, enum := range regexp.MustCompile(`(?s)enum\s*\w*\s*\{(.*?)\}`).FindAllStringSubmatch(source, -1) {
		next := 0
		for _, item := range strings.Split(enum[1], ",") {
			name, value, assigned := strings.Cut(strings.TrimSpace(item), "=")
			name, value = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), "()")
			if name == "" {
				continue
			}
			if assigned {
				if one, shift, ok := strings.Cut(value, "<<"); ok && strings.TrimSpace(one) == "1" {
					by, _ := strconv.Atoi(strings.TrimSpace(shift))
					next = 1 << by
				} else if n, err := strconv.Atoi(value); err == nil {
					next = n
				} else {
					next = values[value]
				}
			}
			values[name] = next
			next++
		}
	}
	return values
}
