package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// A report is what a command has found or done: it is printed as text, or as the one
// JSON document on standard output.
type report interface{ text(p *printer) }

// A failure is the JSON of an error.
type failure struct {
	Exit    Exit   `json:"exit"`
	Message string `json:"message"`
}

// finish prints the report and the error of a run, and returns its exit code.
func (a *app) finish(err error) Exit {
	code := exitOf(err)
	if a.flags.output == "json" {
		return a.finishJSON(code, err)
	}
	p := &printer{colour: a.colour()}
	if a.report != nil {
		a.report.text(p)
	}
	if _, printErr := a.Stdout.Write(p.Bytes()); printErr != nil && code == done {
		err, code = fmt.Errorf("printing the result: %w", printErr), failed
	}
	if err != nil && !errors.Is(err, errSilent) {
		fmt.Fprintln(a.Stderr, "keytool: "+err.Error())
	}
	return code
}

// finishJSON prints the members of the report and, if the command failed, "error" behind
// them.
func (a *app) finishJSON(code Exit, err error) Exit {
	members := []byte("{}")
	if a.report != nil {
		var marshalErr error
		if members, marshalErr = marshal(a.report); marshalErr != nil {
			err, code = fmt.Errorf("writing the result: %w", marshalErr), failed
			members = []byte("{}")
		}
	}
	if err != nil {
		f := failure{Exit: code}
		if !errors.Is(err, errSilent) {
			f.Message = err.Error()
		}
		text, _ := marshal(f)
		comma := ","
		if string(members) == "{}" {
			comma = ""
		}
		members = append(bytes.TrimSuffix(members, []byte("}")), comma+`"error":`+string(text)+"}"...)
	}
	if _, printErr := a.Stdout.Write(append(members, '\n')); printErr != nil && code == done {
		fmt.Fprintln(a.Stderr, "keytool: printing the result: "+printErr.Error())
		return failed
	}
	return code
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// colour reports whether standard output understands colours and the user wants them
// (https://no-color.org).
func (a *app) colour() bool { return a.Getenv("NO_COLOR") == "" && isTerminal(a.Stdout) }

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// note tells on standard error what is done, unless -q.
func (a *app) note(format string, args ...any) {
	if !a.flags.quiet {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// detail tells more, with -v.
func (a *app) detail(format string, args ...any) {
	if a.flags.verbose {
		fmt.Fprintf(a.Stderr, format+"\n", args...)
	}
}

// A printer collects the text of a report.
type printer struct {
	bytes.Buffer
	colour bool
}

func (p *printer) linef(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// The colours are those of a verdict.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (p *printer) paint(colour, text string) string {
	if !p.colour {
		return text
	}
	return "\x1b[1;" + colour + "m" + text + "\x1b[0m"
}

// table prints aligned columns; the first row is the header.
func (p *printer) table(rows ...[]string) {
	w := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = io.WriteString(w, strings.TrimRight(strings.Join(row, "\t"), "\t ")+"\n")
	}
	_ = w.Flush() // into a buffer
}
