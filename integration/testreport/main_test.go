package main

import (
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const (
		pass   = `{"Action":"run","Package":"p","Test":"TestA"}` + "\n" + `{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}` + "\n" + `{"Action":"pass","Package":"p","Test":"TestA"}` + "\n"
		skip   = `{"Action":"output","Package":"p","Test":"TestB","Output":"no peer\n"}` + "\n" + `{"Action":"skip","Package":"p","Test":"TestB"}` + "\n"
		fail   = `{"Action":"output","Package":"p","Test":"TestC","Output":"wrong\n"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestC"}` + "\n"
		panics = `{"Action":"output","Package":"p","Test":"TestD","Output":"panic: no\n"}` + "\n"
		good   = `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}` + "\n" + `{"Action":"pass","Package":"p"}` + "\n"
		bad    = `{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}` + "\n" + `{"Action":"fail","Package":"p"}` + "\n"
		build  = `{"Action":"build-output","ImportPath":"q","Output":"q.go:1: syntax error\n"}` + "\n" + `{"Action":"build-fail","ImportPath":"q"}` + "\n"
	)
	tests := []struct {
		name, in string
		ok       bool
		want     []string
		unwanted string
	}{
		{"all pass", pass + good, true, []string{"ok  \tp\t0.1s\n", "\n1 passed, 0 failed, 0 skipped\n"}, "chatter"},
		{"one skips", pass + skip + good, false, []string{"no peer\n", "1 passed, 0 failed, 1 skipped\n"}, "chatter"},
		{"one fails", pass + fail + bad, false, []string{"wrong\n", "FAIL\tp\t0.1s\n", "1 passed, 1 failed, 0 skipped\n"}, "chatter"},
		{"a package fails outside of its tests", pass + bad, false, []string{"FAIL\tp"}, ""},
		{"a test ends the process", pass + panics + bad, false, []string{"panic: no\n", "FAIL\tp"}, "chatter"},
		{"a package does not build", pass + good + build, false, []string{"syntax error"}, ""},
		{"no test ran", good, false, []string{"0 passed"}, ""},
		{"nothing at all", "", false, []string{"0 passed"}, ""},
		{"plain text from the go command", pass + good + "go: no such module\n", false, []string{"no such module"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := report(&out, strings.NewReader(test.in))
			if err != nil || ok != test.ok {
				t.Errorf("report: %v, %v, want %v", ok, err, test.ok)
			}
			for _, want := range test.want {
				if !strings.Contains("\n"+out.String(), want) {
					t.Errorf("the report lacks %q:\n%s", want, out.String())
				}
			}
			if test.unwanted != "" && strings.Contains(out.String(), test.unwanted) {
				t.Errorf("the report shows what a passing test printed:\n%s", out.String())
			}
		})
	}
}

func TestReportOfACutOff(t *testing.T) {
	_, err := report(new(strings.Builder), strings.NewReader(`{"Action":"output","Package":"p","Test":"TestA","Output":"x"}`))
	if err == nil {
		t.Error("no error")
	}
}
