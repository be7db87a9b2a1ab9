"""What `make test` leaves out, by name, and why. `make test-all` runs everything, and so does CI.

Each name is a folder, a file or a test, as pytest would take it. A test of several databases is only run on SQLite,
and a test of Hypothesis tries 20 examples.
"""

LEFT_OUT = {
    "reads every byte, or measures memory": (
        "tests/agents/test_broken_streams.py::test_chunks_may_end_anywhere",
        "tests/cli/test_convert.py::test_memory_does_not_grow_with_the_samples",
        "tests/metrics/test_long_texts.py::test_hostile_corpora_take_less_than_a_gigabyte",
        "tests/metrics/test_long_texts.py::test_hostile_replies_take_less_than_a_gigabyte",
        "tests/service/test_no_key_in_any_byte.py",
        "tests/store/test_damage.py::test_no_flipped_bit_goes_unseen",
    ),
    "starts a browser": (
        "tests/comparison/test_comparison_page.py",
        "tests/reporters/test_html_in_browser.py",
        "tests/service/pages/test_gold_in_browser.py",
        "tests/service/pages/test_pages_in_browser.py",
        "tests/service/test_browser.py",
        "tests/service/pages/test_gold_pages.py::test_long_and_hostile_texts_are_shown_and_do_nothing",
    ),
    "starts PostgreSQL, or stops a database": (
        "tests/service/test_backup.py",
        "tests/service/test_database_outage.py",
        "tests/service/test_migrations.py",
        "tests/service/test_operations.py",
    ),
    "kills processes, or fills a disk": (
        "tests/agents/test_closing.py::test_ctrl_c_closes",
        "tests/chaos",
        "tests/cli/test_baseline_history.py::test_a_confirmation_that_is_killed_goes_on_where_it_was",
        "tests/cli/test_judge_cache.py::test_a_full_disk_costs_a_warning_not_the_run",
        "tests/cli/test_judge_cache.py::test_killed_at_any_time_nothing_is_lost_and_nothing_paid_twice_but_what_was_in_flight",
        "tests/cli/test_resume.py::test_thirty_kills_lose_nothing_and_repeat_no_more_than_was_in_flight",
        "tests/cli/test_retrievers.py::test_a_run_that_is_killed_while_ingesting_is_gone_on_with",
        "tests/cli/test_retrievers.py::test_ctrl_c_cleans_up_as_told",
        "tests/cli/test_safe_writes.py::test_a_full_disk_leaves_the_old_report_the_old_baseline_and_the_old_dataset",
        "tests/cli/test_scope_check.py::test_being_ended_leaves_nothing_behind",
        "tests/service/test_chaos.py",
        "tests/service/test_evaluations.py::test_an_evaluation_survives_its_worker_and_a_changed_manifest_ends_it",
        "tests/service/test_full_disk.py",
        "tests/service/test_takeover.py",
    ),
    "starts a process, or several, for each case": (
        "tests/cli/test_command_code.py::test_the_files_of_git_are_compared",
        "tests/cli/test_init.py::test_the_workflow_runs_as_written",
        "tests/cli/test_judge_cache.py::test_two_processes_share_a_cache",
        "tests/cli/test_judged_run.py::test_ragas_is_imported_only_for_a_score_that_is_really_to_be_computed",
        "tests/cli/test_output.py::test_a_reader_that_leaves_changes_neither_the_exit_code_nor_prints_a_traceback",
        "tests/cli/test_output.py::test_help_for_a_reader_that_leaves",
        "tests/cli/test_output.py::test_what_user_code_does_to_its_streams_is_no_part_of_the_result",
        "tests/cli/test_safe_writes.py::test_pipes_and_standard_output_are_written_to",
        "tests/test_plugins.py::test_the_example_passes_its_own_tests",
        "tests/test_pytest_plugin.py::test_an_evaluation_that_fails_is_not_started_again",
        "tests/test_pytest_plugin.py::test_workers_share_one_run",
    ),
    "simulates thousands of runs": (
        "tests/cli/test_measurement.py::test_an_honest_history_of_twenty_commits_is_incomplete_at_most_once",
        "tests/cli/test_plan.py::test_a_drop_of_the_detectable_size_is_found_in_four_of_five_runs",
        "tests/cli/test_plan.py::test_an_anchor_has_most_of_the_level_and_what_it_detects_counts",
        "tests/cli/test_plan.py::test_more_attempts_than_the_baseline_has_detect_more",
        "tests/cli/test_plan.py::test_more_metrics_and_fewer_clusters_need_larger_drops",
        "tests/cli/test_plan.py::test_runs_with_other_numbers_of_attempts_are_compared_over_the_first",
        "tests/cli/test_plan.py::test_the_samples_that_exclude_max_drop",
        "tests/cli/test_plan.py::test_what_the_noise_rests_on",
        "tests/comparison/test_compare_runs.py::test_one_of_equal_runs_is_seldom_called_the_best",
        "tests/comparison/test_regression.py::test_a_true_drop_of_just_the_limit_seldom_fails",
        "tests/comparison/test_regression.py::test_an_unchanged_flaky_agent_rarely_has_too_many_new_failures",
        "tests/correction/test_rates.py::test_the_interval_covers_the_share_in_the_worst_case_found",
        "tests/gold/test_agreement.py::test_the_intervals_cover_the_truth",
        "tests/gold/test_flag_rates.py::test_false_alarms_are_as_rare_as_stated",
        "tests/service/test_evaluations.py::test_comparisons_say_only_what_the_data_show",
        "tests/stats/test_power.py",
        "tests/stats/test_sequence.py::test_it_covers_the_mean_at_every_time_at_once",
        "tests/validity/test_changes.py",
        "tests/validity/test_coverage.py",
        "tests/validity/test_drift.py::test_few_histories_have_a_false_alarm",
        "tests/validity/test_drift.py::test_flips_of_a_tenth_are_found",
        "tests/validity/test_worst_cases.py",
    ),
    "lets a judge grade a run many times": (
        "tests/labels/test_drift.py::test_a_missing_file_is_an_error_before_anything_is_asked",
        "tests/labels/test_drift.py::test_a_run_with_many_grades_leaves_replies_to_confirm_a_change",
        "tests/labels/test_drift.py::test_anchors_are_asked_again_although_the_cache_has_their_grades",
        "tests/labels/test_drift.py::test_another_rubric_is_not_the_calibrated_one",
        "tests/labels/test_drift.py::test_each_run_begins_with_others",
        "tests/labels/test_drift.py::test_the_metrics_of_a_run_share_the_level",
        "tests/labels/test_drift.py::test_the_plan_counts_them_and_too_few_are_a_reason",
        "tests/labels/test_drift.py::test_what_is_all_from_the_cache_is_not_tested_and_says_so",
    ),
    "crosses every fault with every other, or invents thousands of inputs": (
        "tests/cli/test_hostile_texts.py",
        "tests/faults/test_invariants.py::test_a_fault_that_spreads_never_turns_a_verdict_into_pass",
        "tests/faults/test_matrix.py",
        "tests/reporters/test_hostile_texts.py",
        "tests/fuzz",
        "tests/service/test_schemathesis.py",
        "tests/service/test_scopes.py",
        "tests/test_foregone.py::test_no_completion_changes_a_certain_verdict",
    ),
    "runs every example of the documents": (
        "tests/examples",
        "tests/pages",
        "tests/service/test_page.py",
        "tests/test_contributing.py",
        "tests/test_first_contact.py",
        "tests/test_site.py",
        "tests/test_workflows.py",
    ),
    "waits for a limit of time, or for another process": (
        "tests/agents/test_process.py",
        "tests/cli/test_batch.py",
        "tests/cli/test_budget.py::test_fail_fast_stops_as_soon_as_the_verdict_is_certain",
        "tests/cli/test_budget.py::test_the_time_limit_holds_for_requests_that_wait_for_their_turn",
        "tests/cli/test_budget.py::test_the_time_of_a_run_covers_the_agent_and_earlier_sessions",
        "tests/cli/test_retrievers.py::test_a_query_takes_no_longer_than_it_is_given",
        "tests/cli/test_retrievers.py::test_a_resume_ingests_again_and_asks_what_is_left",
        "tests/cli/test_retrievers.py::test_a_retriever_that_is_gone",
        "tests/cli/test_retrievers.py::test_none_within_the_latency_limit_is_a_failure",
        "tests/judge/test_pace.py",
        "tests/retrievers/test_qdrant.py",
        "tests/service/test_comparing_api.py::test_a_running_comparison_is_cancelled_at_once",
        "tests/service/test_comparing_api.py::test_events_continue_where_a_client_left_and_end_with_the_server",
        "tests/service/test_pushes.py",
        "tests/service/test_runs_api.py::test_an_interrupted_run_is_completed_by_a_worker_with_the_same_numbers",
    ),
    "installs packages": ("tests/test_slim_install.py",),
}
_REASONS = {name: why for why, names in LEFT_OUT.items() for name in names}


def explain_left_out(node: str) -> str | None:
    """Why `make test` leaves a test out, by its node id; None if it does not."""
    name, _, parameters = node.partition("[")
    if "postgresql" in parameters:
        return "starts PostgreSQL, or stops a database"
    while name and name not in _REASONS:
        name = name[: max(name.rfind("/"), name.rfind("::"), 0)]
    return _REASONS.get(name)
