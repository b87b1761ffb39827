// pause is the first process of every pod sandbox. It holds the sandbox's namespaces open, and with a shared process
// namespace it is process 1 there: so it reaps the orphans of all containers, and it ends on SIGTERM and SIGINT, which
// process 1 would ignore without a handler.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "-v") == 0) {
    puts("mesopod pause 1");
    return 0;
  }

  // The signals are blocked and taken one after another by sigwait: no handler runs beside the loop, and a signal that
  // comes before the loop waits for it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGCHLD);
  if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0) {
    perror("pause: cannot block signals");
    return 1;
  }
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0) return 1;
    if (signal != SIGCHLD) return 0;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
  }
}
