// Options of the subcommands, for main.cpp only.
#pragma once

#include <CLI/CLI.hpp>

#include "commands/commands.h"

namespace hidup {

// Add a subcommand whose arguments parsing stores in the options, which outlive the app.
void add_train(CLI::App& app, TrainOptions& options);
void add_evaluate(CLI::App& app, EvaluateOptions& options);
void add_generate(CLI::App& app, GenerateOptions& options);
void add_export(CLI::App& app, ExportOptions& options);
void add_profile(CLI::App& app, ProfileOptions& options);
void add_search(CLI::App& app, SearchCommandOptions& options);
void add_explain(CLI::App& app, ExplainOptions& options);
void add_validate(CLI::App& app, ValidateOptions& options);
void add_graph(CLI::App& app, GraphOptions& options);
void add_schedule(CLI::App& app, ScheduleOptions& options);
void add_doctor(CLI::App& app, DoctorOptions& options);

}  // namespace hidup
