package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
)

// A report is what a command has found or done: it is printed as text, or as the one
// JSON document on standard output, which the folder schema describes.
type report interface{ text(p *printer) }

// A failure is the JSON of an error.
type failure struct {
	Exit    Exit   `json:"exit"`
	Message string `json:"message"`
	With    string `json:"with,omitempty"` // the flags that every command in it needs
}

// finish prints the report and the error of a run, and returns its exit code.
func (a *app) finish(err error) Exit {
	code := exitOf(err)
	text := &printer{colour: a.colour(), verbose: a.flags.verbose}
	if g, ok := a.report.(guide); ok {
		g.needs(a.keysetFlagsGiven())
	}
	if a.flags.output == outputJSON {
		document, marshalErr := a.document(code, err)
		if marshalErr != nil {
			code, err = failed, marshalErr
		}
		text.Write(document)
	} else if a.report != nil {
		a.report.text(text)
	}
	if _, printErr := a.Stdout.Write(text.Bytes()); printErr != nil {
		// A code that tells more stays.
		if code == done {
			code = failed
		}
		what := fmt.Sprintf("printing the result: %s", printErr)
		if a.made != "" {
			what += "; " + a.made
		}
		a.tellOf(what)
	}
	if err != nil && !errors.Is(err, errSilent) {
		a.tellOf(err.Error())
	}
	return code
}

// tellOf tells what has failed, and the flags that a command needs which that names.
func (a *app) tellOf(what string) {
	a.tell("keytool: %s", what)
	if flags := a.neededBy(what); flags != "" {
		a.tell("  with  %s", flags)
	}
}

// neededBy returns the flags that the commands need which an error names, if it names one. What
// is no store or key service is not to be typed again.
func (a *app) neededBy(what string) string {
	if !a.reached || !namesCommand(what) {
		return ""
	}
	return a.keysetFlagsGiven()
}

// document returns the members of the report and, if the command failed, "error" behind
// them.
func (a *app) document(code Exit, err error) ([]byte, error) {
	members := []byte("{}")
	var marshalErr error
	if a.report != nil {
		var text []byte
		if text, marshalErr = marshal(a.report); marshalErr == nil {
			members = text
		} else {
			code, err = failed, fmt.Errorf("writing the result: %w", marshalErr)
			marshalErr = err
		}
	}
	if err != nil && !errors.Is(err, errSilent) {
		text, _ := marshal(failure{Exit: code, Message: err.Error(), With: a.neededBy(err.Error())}) // a number and texts
		members = bytes.TrimSuffix(members, []byte("}"))
		if len(members) > 1 {
			members = append(members, ',')
		}
		members = append(members, `"error":`+string(text)+"}"...)
	}
	return append(members, '\n'), marshalErr
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return escapeJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), err
}

// escapeJSON writes what no terminal should get as \u and digits. It is the same
// document: only texts in it have such characters.
func escapeJSON(document []byte) []byte {
	var b bytes.Buffer
	for _, r := range string(document) {
		if !unprintable(r) || r == utf8.RuneError {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

const (
	outputText = "text"
	outputJSON = "json"
)

// outputOf finds what -o asks for, wherever it stands: a command line that is wrong
// before it gets there is answered in JSON, too.
func outputOf(args []string) string {
	output := outputText
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		short, isShort := strings.CutPrefix(arg, "-")
		value := ""
		switch long, isLong := strings.CutPrefix(arg, "--output"); {
		case arg == "--":
			return output
		case isLong && long == "":
			value = next
		case isLong:
			value = strings.TrimPrefix(long, "=")
		case isShort:
			// Letters of switches may stand before it, as in -qo json.
			if short = strings.TrimLeft(short, "qvy"); strings.HasPrefix(short, "o") {
				if value = strings.TrimPrefix(short[1:], "="); value == "" {
					value = next
				}
			}
		}
		if value == outputJSON {
			output = outputJSON
		}
	}
	return output
}

// colour reports whether standard output understands colours and the user wants them
// (https://no-color.org).
func (a *app) colour() bool {
	return a.flags.output == outputText && a.Getenv("NO_COLOR") == "" && a.Getenv("TERM") != "dumb" && isTerminal(a.Stdout)
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// note tells on standard error what is done, unless -q.
func (a *app) note(format string, args ...any) {
	if !a.flags.quiet {
		a.tell(format, args...)
	}
}

// detail tells more, with -v.
func (a *app) detail(format string, args ...any) {
	if a.flags.verbose {
		a.tell(format, args...)
	}
}

// tell writes a line on standard error.
func (a *app) tell(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format+"\n", escaped(args)...)
}
