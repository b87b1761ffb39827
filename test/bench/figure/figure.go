// Package figure prints what benches measure, one line each: "figure NAME VALUE UNIT target|goal <=|>= LIMIT". A target
// must hold, a goal is shown (design section 8). It also measures processes.
package figure

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Show prints a figure without a limit.
func Show(name string, value float64, unit string) {
	fmt.Printf("figure %s %.3f %s\n", name, value, unit)
}

// AtMost prints a figure with its target and, unless it is 0, its goal, and tells whether the target holds.
func AtMost(name string, value float64, unit string, target, goal float64) bool {
	fmt.Printf("figure %s %.3f %s target <= %g", name, value, unit, target)
	if goal > 0 {
		fmt.Printf(" goal <= %g", goal)
	}
	fmt.Println()
	return value <= target
}

// AtLeast is AtMost for what had better be large; it has no goal.
func AtLeast(name string, value float64, unit string, target float64) bool {
	fmt.Printf("figure %s %.3f %s target >= %g\n", name, value, unit, target)
	return value >= target
}

// Quantile is the nearest-rank quantile of values; q is between 0 and 1.
func Quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	rank := int(q*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Spread prints a figure's median over rounds, with the least and the largest.
func Spread(name string, values []float64, unit string) float64 {
	median := Quantile(values, 0.5)
	fmt.Printf("figure %s %.3f %s # of %d: %.3f to %.3f\n", name, median, unit, len(values), slices.Min(values), slices.Max(values))
	return median
}

// Memory is what a process has in MB (10^6 bytes): Rss counts shared pages whole, Pss divides them by their users,
// Anonymous leaves out what is of files: heap and stacks.
type Memory struct{ Rss, Pss, Anonymous float64 }

// MemoryOf reads the memory of a process.
func MemoryOf(pid int) (Memory, error) {
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		return Memory{}, err
	}
	defer file.Close()
	found := map[string]float64{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 {
			if kib, err := strconv.ParseFloat(fields[1], 64); err == nil {
				found[fields[0]] = kib * 1024 / 1e6
			}
		}
	}
	if found["Rss:"] == 0 {
		return Memory{}, errors.Join(lines.Err(), fmt.Errorf("process %d has no memory", pid))
	}
	return Memory{Rss: found["Rss:"], Pss: found["Pss:"], Anonymous: found["Anonymous:"]}, nil
}

// CPU is the time that a process has run so far, its threads together.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	// The name in brackets may have spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	// A tick is 10 ms on every Linux that Go runs on.
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, err2)
}
