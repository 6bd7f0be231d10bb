#include "cli/train.h"
#include "config/job_settings.h"

namespace paracord {

void TrainFlags::AddTo(Flags& flags) {
  flags.Positional("JOB", "the job file", &job_file);
  flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
  flags.Strings("accept-change", "FILE", kAcceptChangeHelp, &accept_changes);
  flags.Integer(
      "ps", "N",
      "parameter servers; 0: workers hold the variables. Default: 1, or 0 where the job's "
      "strategy has none",
      0, kTrainPsMax, &ps);
  flags.Integer("workers", "N", "workers", 1, kTrainWorkersMax, &workers);
  flags.Integer("threads", "N",
                "of each worker that compute; default: the machine's, divided among its workers", 1,
                1024, &threads);
  flags.String("memory-limit", "BYTES",
               "what each process may hold in memory, such as 2GiB; default: nine tenths of the "
               "machine's",
               &memory_limit);
  flags.String(
      "device", "DEVICE",
      "what workers compute on: auto, cpu, cuda:N, cuda:all or pjrt:PATH; in a job with "
      "rounds cpu:N and cuda:N,M are several devices of a worker; a job with stages takes as many "
      "devices of cpu:N, cuda:N,M or cuda:all",
      &device);
  flags.String("dir", "DIR", "where the job lives; default: paracord-<job name>", &dir);
  flags.String("log-level", "LEVEL", "of the daemons: debug, info, warn, error or off", &log_level);
  flags.String("http", "ADDRESS",
               "show the job there by HTTP, in a page and as metrics, such as 127.0.0.1:8080",
               &http);
  flags.Switch("insecure", "allow plain text, without any check, between hosts and for --http",
               &insecure);
  flags.Switch("evaluator", "one more process scores each checkpoint, in DIR/evaluations.jsonl",
               &evaluator);
  flags.Switch("verbose", "print what the job asks of the ps, which DIR/logs/notes.txt has anyway",
               &verbose);
  flags.Switch("fresh", "begin anew: remove what an earlier run left in DIR, and nothing else",
               &fresh);
}

}  // namespace paracord
