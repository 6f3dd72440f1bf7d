-- What slurmctld runs for JobSubmitPlugins=lua, at a site without a job_submit.lua of its own. It
-- lies beside slurm.conf on the controllers: `slurm-failover install` puts it there and sets that, and
-- docs/submitting.md has how to do it by hand. Where slurm-failover is not installed (any more), every
-- job passes.

local HOME = "/opt/slurm-failover/share/slurm-failover/lua/"
local installed, failover = pcall(dofile, HOME .. "slurm_failover_job_submit.lua")
if not installed then slurm.log_error("slurm-failover: not in force: %s", tostring(failover)) end

function slurm_job_submit(job_desc, part_list, submit_uid)
	return installed and failover.submit(job_desc, part_list) or slurm.SUCCESS
end

function slurm_job_modify(job_desc, job_rec, part_list, modify_uid)
	return installed and failover.modify(job_desc, job_rec, part_list, modify_uid) or slurm.SUCCESS
end

return slurm.SUCCESS
