// SPDX-License-Identifier: Apache-2.0
#include "run_manual.hpp"

namespace sft::apps {

cli::Manual run_manual() {
  cli::Manual manual;
  manual.program = "sft-run";
  manual.summary = "Starts sft on several ranks, stops it in good order, and starts it again where that helps";
  manual.usage = {"sft-run -n N INPUT.ini [--section.key VALUE ...]",
                  "sft-run --launcher \"mpirun --hostfile hosts -np 64\" INPUT.ini ...",
                  "sft-run --requeue --restarts 10 --launcher \"srun --mpi=pmix\" INPUT.ini ..."};
  manual.paragraphs = {"From INPUT.ini on, all words are for sft; paths are relative to where sft-run is called.",
                       "Ctrl-C, SIGTERM, SIGHUP and SIGUSR1 save and stop, with status 75; so does one that comes "
                       "before the first step, when "
                       "there is nothing to save. Another Ctrl-C, after a second, ends the run at once."};
  manual.operand = "*.ini";
  manual.groups = {
      {"Options",
       {{"num_ranks",
         "N",
         "start N ranks on this machine with mpirun, also more than it has cores; -n N is the same",
         "",
         {}},
        {"launcher", "COMMAND", "the command that starts the ranks, in place of mpirun -np N; cut at blanks", "", {}},
        {"restarts",
         "N",
         "start the ranks again, up to N times, when they end with a status that another start can cure (not 0, 2, 3, "
         "4 and "
         "75), from the newest checkpoint; in a SLURM job without the node that a line of the run or of SLURM names",
         "0",
         {}},
        {"without_progress", "N", "the most restarts in a row that may save no further checkpoint", "3", {}},
        {"spares",
         "K",
         "start on K nodes fewer than the SLURM job has; a spare one takes the place of one that was named or that "
         "SLURM lost",
         "0",
         {}},
        {"requeue",
         "",
         "put this SLURM job back into the queue after status 75 (stopped: run again to go on), and where no restart "
         "or no "
         "node is left; it stops, and saves, in time before the job's time is over",
         "",
         {}},
        {"help", "", "print what it does", "", {}}}}};
  return manual;
}

}  // namespace sft::apps
