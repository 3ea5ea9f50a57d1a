package echoseal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest is a test as the documentation names it: `package/path.TestName`.
var namedTest = regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`")

// Every line of the page on interoperation names a test that shows it, and that there is.
func TestInteropIsBackedByTests(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("docs", "interop.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") || strings.Contains(line, "| test |") {
			continue
		}
		rows++
		tests := namedTest.FindAllStringSubmatch(line, -1)
		if tests == nil {
			t.Errorf("no test is named in: %s", line)
		}
		for _, test := range tests {
			if !hasTest(t, test[1], test[2]) {
				t.Errorf("there is no %s in %s", test[2], test[1])
			}
		}
	}
	if rows < 20 {
		t.Errorf("the page has %d lines", rows)
	}
}

func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
