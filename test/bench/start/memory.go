package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// memory prints the proportional set size of each process that runs from the bundle or from real Mesos beside it.
func memory(bundle string) error {
	root, err := filepath.Abs(filepath.Dir(bundle))
	if err != nil {
		return err
	}
	folders, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	total := map[string]float64{}
	for _, folder := range folders {
		name, err := program(folder, root)
		if err != nil || name == "" {
			continue // a process that ended meanwhile, a kernel thread, or somebody else's
		}
		size, err := pss(folder)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		total[name] += size
	}
	names := make([]string, 0, len(total))
	for name := range total {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		figure("pss-"+name, total[name], "MB")
	}
	return nil
}

// program names a process of ours: its file, and mesopod's verb. The keeper runs from its sandbox.
func program(folder, root string) (string, error) {
	file, err := os.Readlink(filepath.Join(folder, "exe"))
	if err != nil {
		return "", err
	}
	name := filepath.Base(file)
	if !strings.HasPrefix(file, root+"/") && name != "mesopod-keeper" {
		return "", nil
	}
	line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
	if err != nil {
		return "", err
	}
	args := strings.Split(string(line), "\x00")
	switch {
	case name == "mesopod" && len(args) > 1:
		name += "-" + args[1]
	case name == "mesosd":
		name = filepath.Base(args[0])
	}
	return name, nil
}

// pss is the proportional set size of a process in MB (10^6 bytes).
func pss(folder string) (float64, error) {
	file, err := os.Open(filepath.Join(folder, "smaps_rollup"))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) >= 2 && fields[0] == "Pss:" {
			kib, err := strconv.ParseFloat(fields[1], 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s/smaps_rollup has no Pss", folder))
}
