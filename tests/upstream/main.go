// Command upstream answers allocation and CEL questions with Kubernetes' own code, so that ours can be compared
// with it. It speaks the protocol of `allot allocate --ndjson` and `allot cel --ndjson`: one JSON object a line on
// standard input, one JSON object a line on standard output, flushed per line. A broken line is answered with an
// error and the next one is served.
//
//	upstream [-timeout 2s] [-allocator experimental] allocate   which devices satisfy these claims on this node
//	upstream [-timeout 2s] [-allocator experimental] bench      how long it takes to find a node among many
//	upstream cel                                                evaluate an expression, on a device or plainly
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/dynamic-resource-allocation/structured"
)

// answer is what a command says about one line. Commands never fail: errors are part of the answer.
type answer func(line []byte) any

func main() {
	timeout := flag.Duration("timeout", 2*time.Second, "give up on one problem after this time")
	implementation := flag.String("allocator", "experimental",
		"experimental, incubating or stable; auto lets the features decide, as the scheduler does")
	flag.Parse()
	if *implementation != "auto" {
		structured.EnableAllocators(*implementation)
	}
	commands := map[string]answer{
		"allocate": func(line []byte) any { return answerAllocate(line, *timeout) },
		"bench":    func(line []byte) any { return answerBench(line, *timeout) },
		"cel":      answerCEL,
	}
	command, known := commands[flag.Arg(0)]
	if !known || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: upstream [-timeout 2s] [-allocator experimental] allocate|bench|cel")
		os.Exit(2)
	}
	if err := serve(os.Stdin, os.Stdout, command); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer, command answer) error {
	// ReadBytes, unlike a Scanner, has no limit on the length of a line.
	lines := bufio.NewReaderSize(in, 1<<20)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(guarded(command, line)); err != nil {
				return fmt.Errorf("write answer: %w", err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read line: %w", err)
		}
	}
}

// guarded turns a panic of the code under comparison (a step of zero, a selector without CEL) into an error answer.
func guarded(command answer, line []byte) (reply any) {
	defer func() {
		if cause := recover(); cause != nil {
			reply = map[string]any{"name": nameOf(line), "ok": false, "panic": true, "error": fmt.Sprintf("panic: %v", cause)}
		}
	}()
	return command(line)
}

// nameOf finds the name even in a line whose other fields do not decode.
func nameOf(line []byte) string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(line, &named)
	return named.Name
}
