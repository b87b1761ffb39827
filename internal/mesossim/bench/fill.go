package main

import (
	"context"
	"fmt"
	"time"
)

// executorID is that of mesopod's executor: whoever takes the framework over finds its own.
const executorID = "mesopod-executor"

// fill launches tasks on all agents of a simulator that runs elsewhere, and leaves the framework and its tasks there for whoever
// subscribes with its id, which it prints together with a line for each task: its id, its agent's id and its agent's host name.
// Ids are those of pods' tasks: a UID and the number of the attempt.
func fill(ctx context.Context, master string, agents, tasks int) error {
	s, err := subscribe(ctx, master)
	if err != nil {
		return err
	}
	s.executor = executorID
	made := 0
	s.taskID = func(string, int) string {
		made++
		return fmt.Sprintf("00000000-0000-4000-8000-%012d.1", made)
	}
	if _, err := s.countOffers(time.Nanosecond, agents); err != nil {
		return err
	}
	fmt.Println("framework", s.id.Value)
	hosts := map[string]string{}
	for _, o := range s.open {
		hosts[o.AgentID.Value] = o.Hostname
	}
	s.launched = func(task, agent string) { fmt.Println("task", task, agent, hosts[agent]) }
	return s.launch(agents, tasks)
}
