// SPDX-License-Identifier: BSD-2-Clause

// Prints as JSON what google/pprof's own parser reads of each profile: pprof_sums FILE...
package main

import (
	"encoding/json"
	"os"

	"github.com/google/pprof/profile"
)

type sums struct {
	Types     []string
	Period    string
	TimeNanos int64
	Total     []int64
	Samples   int
	Functions map[string][]int64 // flat, of the innermost function
	Unused    int                // functions in no stack
	Labels    map[string]bool
	Comments  []string
}

func read(path string) sums {
	file, err := os.Open(path)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	prof, err := profile.Parse(file)
	if err != nil {
		panic(err)
	}
	if err := prof.CheckValid(); err != nil {
		panic(err)
	}
	found := sums{TimeNanos: prof.TimeNanos, Samples: len(prof.Sample), Functions: map[string][]int64{}, Labels: map[string]bool{}, Comments: prof.Comments}
	for _, kind := range prof.SampleType {
		found.Types = append(found.Types, kind.Type+":"+kind.Unit)
		found.Total = append(found.Total, 0)
	}
	if prof.PeriodType != nil {
		found.Period = prof.PeriodType.Type + ":" + prof.PeriodType.Unit
	}
	used := map[uint64]bool{}
	for _, sample := range prof.Sample {
		name := ""
		if len(sample.Location) > 0 {
			name = sample.Location[0].Line[0].Function.Name
		}
		if found.Functions[name] == nil {
			found.Functions[name] = make([]int64, len(sample.Value))
		}
		for i, value := range sample.Value {
			found.Total[i] += value
			found.Functions[name][i] += value
		}
		for _, location := range sample.Location {
			for _, line := range location.Line {
				used[line.Function.ID] = true
			}
		}
		for label := range sample.Label {
			found.Labels[label] = true
		}
	}
	found.Unused = len(prof.Function) - len(used)
	return found
}

func main() {
	all := []sums{}
	for _, path := range os.Args[1:] {
		all = append(all, read(path))
	}
	if err := json.NewEncoder(os.Stdout).Encode(all); err != nil {
		panic(err)
	}
}
