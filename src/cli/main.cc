#include "cli/command.h"

int main(int argc, char** argv) { return surety::cli::RunProgram(argc, argv); }
