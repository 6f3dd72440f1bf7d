-- What sbatch, salloc and srun run for CliFilterPlugins=lua, at a site without a cli_filter.lua of its
-- own. It lies beside slurm.conf on the hosts from which jobs are submitted: `slurm-failover install`
-- puts it there and sets that where it is needed, and docs/submitting.md has how to do it by hand.
-- Where slurm-failover is not installed (any more), every job passes.

local HOME = "/opt/slurm-failover/share/slurm-failover/lua/"
local installed, failover = pcall(dofile, HOME .. "slurm_failover_cli_filter.lua")

function slurm_cli_setup_defaults(options, early_pass)
	return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, pack_offset)
	return installed and failover.pre_submit(options, pack_offset) or slurm.SUCCESS
end

function slurm_cli_post_submit(pack_offset, job_id, step_id)
	return slurm.SUCCESS
end

return slurm.SUCCESS
